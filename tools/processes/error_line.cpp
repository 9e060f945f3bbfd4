#include "tools/processes/error_line.hpp"

#include <algorithm>
#include <cctype>
#include <sstream>

namespace tasuki::processes {
namespace {

constexpr std::string_view digits = "0123456789";

// Removes `prefix` from the text, if it begins with it.
bool skip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

bool is_error_line(std::string_view line) {
  if (line.starts_with("error: ")) return true;
  if (!skip(line, "rank ")) return false;
  const std::size_t number = std::min(line.find_first_not_of(digits), line.size());
  if (number == 0) return false;
  line.remove_prefix(number);
  if (!skip(line, " on ")) return false;
  const std::size_t host = line.find_first_of(" :");
  return host != std::string_view::npos && host > 0 && line.substr(host).starts_with(": ");
}

std::string last_words(std::string_view output) {
  std::istringstream text{std::string(output)};
  std::string last, error;
  for (std::string line; std::getline(text, line);) {
    if (std::ranges::any_of(line, [](unsigned char c) { return std::isalpha(c); })) last = line;
    if (is_error_line(line)) error = line;
  }
  return error.empty() ? last : error;
}

}  // namespace tasuki::processes
