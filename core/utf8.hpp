// UTF-8, and a reversible form of any bytes in it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tasuki {

// The number of bytes of the first character of `text`; 0 if that is not UTF-8 (or `text` is
// empty).
std::size_t utf8_length(std::string_view text);

// Paths, names and environment variables are any bytes, but JSON is UTF-8. UTF-8 is unchanged; a
// byte b that is not valid UTF-8, 0x80 to 0xff, becomes the private-use character U+10FF00 + b. (So
// do the bytes of these 128 characters, or two texts would become the same.)
std::string to_utf8(std::string_view bytes);
// The inverse.
std::string from_utf8(std::string_view text);

// The characters of a text in UTF-8, and the text of such numbers. Numbers that are not characters
// (surrogates, above U+10FFFF) become U+FFFD.
std::u32string characters_of(std::string_view text);
std::string text_of(std::u32string_view characters);

// `text`, the beginning of a file, without the byte order mark that some editors put there.
inline std::string_view without_byte_order_mark(std::string_view text) {
  constexpr std::string_view mark = "\xEF\xBB\xBF";
  if (text.starts_with(mark)) text.remove_prefix(mark.size());
  return text;
}

}  // namespace tasuki
