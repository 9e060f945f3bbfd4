// INI files of settings: one `name = value` a line, `#` or `;` begins a comment.
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
// as it stands, with \" for a quote and \\ for a backslash. Sections do not exist. A line that is
// none of these is an error that names `file` and the line.
std::vector<ConfigLine> parse_config(std::string_view text, std::string_view file);

// `value` as parse_config reads it back: quoted where it must be.
std::string quote_config_value(const std::string& value);

}  // namespace tasuki::program
