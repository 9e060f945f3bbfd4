#include "array_files/array_fields.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "core/printable.hpp"

namespace tasuki {

std::vector<ArrayFileField> parse_array_fields(std::string_view flag, std::string_view text) {
  std::vector<ArrayFileField> fields;
  for (std::string_view rest = text; !rest.empty() || fields.empty();) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == 0 || equals == std::string_view::npos || equals + 1 == pair.size())
      fail(ErrorKind::usage,
           "{}: expected fields and their arrays, such as x=/images,t=/labels, "
           "found '{}'",
           flag, quoted_input(text));
    fields.push_back({std::string(pair.substr(0, equals)), std::string(pair.substr(equals + 1))});
    const auto last = fields.end() - 1;
    if (std::ranges::find(fields.begin(), last, last->name, &ArrayFileField::name) != last)
      fail(ErrorKind::usage, "{}: two arrays are named for the field '{}'", flag, last->name);
  }
  return fields;
}

}  // namespace tasuki
