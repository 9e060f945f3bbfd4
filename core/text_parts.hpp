// The parts of a text between separators or blanks: lists in flags, variables and files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tasuki {

// "a,,b" at ',' is "a", "" and "b"; an empty text is one empty part. Whoever has no use for empty
// parts says what to do with them.
std::vector<std::string> text_parts(std::string_view text, char separator);

// The words between blanks and line ends; none is empty. Quotes mean nothing.
std::vector<std::string> text_words(std::string_view text);

}  // namespace tasuki
