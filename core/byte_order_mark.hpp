// The byte order mark with which some editors begin a text in UTF-8.
#pragma once

#include <string_view>

namespace tasuki {

// `text` without it; `text` is the beginning of a file.
inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  return text;
}

}  // namespace tasuki
