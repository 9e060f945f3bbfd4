#include "tasuki/program/flags/config_file.hpp"

#include "tasuki/core/byte_order_mark.hpp"
#include "tasuki/core/error.hpp"

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

// Reads the quoted value that `text` begins with; false if it does not end or is followed by
// anything but a comment.
bool read_quoted(std::string_view text, std::string& value) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return without_comment(trim(text.substr(i + 1))).empty();
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
                      line);
    ConfigLine setting{number, std::string(trim(line.substr(0, equals))), ""};
    const std::string_view value = trim(line.substr(equals + 1));
    if (!value.starts_with('"'))
      setting.value = without_comment(value);
    else if (!read_quoted(value, setting.value))
      fail_everywhere(ErrorKind::config, "{}:{}: the quoted value of '{}' has no closing quote",
                      file, number, setting.name);
    lines.push_back(std::move(setting));
  }
  return lines;
}

std::string quote_config_value(const std::string& value) {
  if (!value.empty() && value.find_first_of("\"#;\\ \t\r") == std::string::npos) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace tasuki::program
