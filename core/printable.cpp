#include "core/printable.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "core/utf8.hpp"

namespace tasuki {
namespace {

constexpr std::size_t most_of_input = 40, most_of_message = 8000;

// `character`: a UTF-8 character, or a byte that is not part of one.
bool is_control(std::string_view character) {
  constexpr unsigned char del = 0x7f, c1_begin = 0x80, c1_end = 0xa0, lead_of_c1 = 0xc2;
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  const auto is_c1 = [](unsigned char c) { return c >= c1_begin && c < c1_end; };
  if (character.size() == 2) return byte(0) == lead_of_c1 && is_c1(byte(1));
  return character.size() == 1 && (byte(0) < ' ' || byte(0) == del || is_c1(byte(0)));
}

std::string without_controls(std::string_view text, std::string_view kept, std::size_t most) {
  std::string result;
  while (!text.empty()) {
    const std::string_view next = text.substr(0, std::max<std::size_t>(1, utf8_length(text)));
    const bool is_shown = !is_control(next) || kept.find(next) != kept.npos;
    const std::string_view shown = is_shown ? next : "?";
    if (result.size() + shown.size() > most) return result + "...";
    result += shown;
    text.remove_prefix(next.size());
  }
  return result;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  return without_controls(text, "", most);
}

std::string printable_lines(std::string_view text) {
  return without_controls(text, "\n", text.npos);
}

std::string quoted_input(std::string_view text) {
  return printable(text, most_of_input);
}

std::string message_line(std::string_view text) {
  return printable(text, most_of_message);
}

std::string join(std::span<const std::string> texts, std::string_view separator) {
  std::string all;
  for (const std::string& text : texts) {
    if (&text != &texts.front()) all += separator;
    all += text;
  }
  return all;
}

std::string type_name(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> readable(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return readable ? readable.get() : type.name();
}

}  // namespace tasuki
