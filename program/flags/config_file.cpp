#include "program/flags/config_file.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/utf8.hpp"

namespace tasuki::program {
namespace {

constexpr std::string_view white = " \t\r";

std::string_view trim(std::string_view text) {
  const auto begin = text.find_first_not_of(white);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(white) - begin + 1);
}

bool begins_comment(std::string_view text) {
  return text.starts_with('#') || text.starts_with(';');
}

std::string_view without_comment(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (begins_comment(text.substr(i)) && (i == 0 || white.find(text[i - 1]) != white.npos))
      return trim(text.substr(0, i));
  return text;
}

// The byte that `text` begins with as \xNN.
constexpr std::size_t length_of_escaped_byte = 4;
std::optional<char> escaped_byte(std::string_view text) {
  if (!text.starts_with("\\x") || text.size() < length_of_escaped_byte) return std::nullopt;
  const char* const end = text.data() + length_of_escaped_byte;
  unsigned char byte = 0;
  const auto [rest, error] = std::from_chars(text.data() + 2, end, byte, 16);
  if (error != std::errc() || rest != end) return std::nullopt;
  return static_cast<char>(byte);
}

// Reads the quoted value that `text` begins with; false if it does not end or is followed by
// anything but a comment.
bool read_quoted(std::string_view text, std::string& value) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return without_comment(trim(text.substr(i + 1))).empty();
    if (const auto byte = escaped_byte(text.substr(i))) {
      value += *byte;
      i += length_of_escaped_byte - 1;
      continue;
    }
    if (text[i] == '\\' && i + 1 < text.size()) ++i;
    value += text[i];
  }
  return false;
}

}  // namespace

std::vector<ConfigLine> parse_config(std::string_view text, std::string_view file) {
  std::vector<ConfigLine> lines;
  text = without_byte_order_mark(text);
  for (int number = 1; !text.empty(); ++number) {
    const auto end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || begins_comment(line)) continue;

    const auto equals = line.find('=');
    if (equals == std::string_view::npos || equals == 0)
      fail_everywhere(ErrorKind::config, "{}:{}: expected `name = value`, found `{}`", file, number,
                      quoted_input(line));
    ConfigLine setting{number, std::string(trim(line.substr(0, equals))), ""};
    const std::string_view value = trim(line.substr(equals + 1));
    if (!value.starts_with('"'))
      setting.value = without_comment(value);
    else if (!read_quoted(value, setting.value))
      fail_everywhere(ErrorKind::config, "{}:{}: the quoted value of '{}' has no closing quote",
                      file, number, quoted_input(setting.name));
    lines.push_back(std::move(setting));
  }
  return lines;
}

std::string quote_config_value(const std::string& value) {
  const bool is_plain = value.find_first_of("\"#;\\ ") == std::string::npos;
  if (!value.empty() && is_plain && printable(value) == value) return value;
  std::string quoted = "\"";
  for (std::string_view rest = value; !rest.empty();) {
    const std::string_view next = rest.substr(0, std::max<std::size_t>(1, utf8_length(rest)));
    rest.remove_prefix(next.size());
    if (next == "\"" || next == "\\") quoted += '\\';
    if (printable(next) == next)
      quoted += next;
    else
      for (const char c : next) quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
  return quoted + '"';
}

}  // namespace tasuki::program
