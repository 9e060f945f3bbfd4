// INI files of settings: one `name = value` per line; `#` or `;` begins a comment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tasuki::program {

struct ConfigLine {
  int number;  // from 1
  std::string name, value;
};

// A comment begins at the start of a line or after white space. A value in double quotes is taken
// literally, with \" for a quote, \\ for a backslash and \xNN for a byte that controls terminals.
// There are no sections. Any other line is an error that names `file` and the line.
std::vector<ConfigLine> parse_config(std::string_view text, std::string_view file);

// Formats `value` so that parse_config reads it back, with quotes if it needs them.
std::string quote_config_value(const std::string& value);

}  // namespace tasuki::program
