// The parts of a text between separators or blanks, and numbers: lists in flags, variables and
// files.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tasuki {

// "a,,b" at ',' is "a", "" and "b"; an empty text is one empty part. Whoever has no use for empty
// parts says what to do with them.
std::vector<std::string> text_parts(std::string_view text, char separator);

// The words between blanks and line ends; none is empty. Quotes mean nothing.
std::vector<std::string> text_words(std::string_view text);

// The whole text as a number, in the form that std::from_chars reads; nothing if it is none, or out
// of the type's range.
template <class Number>
std::optional<Number> number_in(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && rest == end ? std::optional(number) : std::nullopt;
}

}  // namespace tasuki
