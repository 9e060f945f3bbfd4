#include "array_files/array_fields.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/printable.hpp"
#include "core/text_parts.hpp"

namespace tasuki {

std::vector<ArrayFileField> parse_array_fields(std::string_view flag, std::string_view text) {
  std::vector<ArrayFileField> fields;
  for (const std::string& pair : text_parts(text, ',')) {
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == pair.npos || equals + 1 == pair.size())
      fail(ErrorKind::usage,
           "{}: expected fields and their arrays, such as x=/images,t=/labels, "
           "found '{}'",
           flag, quoted_input(text));
    fields.push_back({pair.substr(0, equals), pair.substr(equals + 1)});
    const auto last = fields.end() - 1;
    if (std::ranges::find(fields.begin(), last, last->name, &ArrayFileField::name) != last)
      fail(ErrorKind::usage, "{}: two arrays are named for the field '{}'", flag, last->name);
  }
  return fields;
}

}  // namespace tasuki
