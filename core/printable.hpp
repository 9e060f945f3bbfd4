// Text from files and command lines, and names of types, for messages and tables.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <typeinfo>

namespace tasuki {

// The text with '?' for each character that controls a terminal, line breaks among them: C0, DEL
// and C1, also as UTF-8 (U+0080 to U+009F). Text longer than `most` bytes is cut between characters
// and ends in "...".
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);

// printable() for several lines: line breaks stay.
std::string printable_lines(std::string_view text);

// A line of input or a word of it, cut after 40 bytes.
std::string quoted_input(std::string_view text);

// The message of an error or warning as one line, whatever names and values it contains.
std::string message_line(std::string_view text);

// The texts with `separator` between them.
std::string join(std::span<const std::string> texts, std::string_view separator);

// The name of a type, as in source code.
std::string type_name(const std::type_info& type);

}  // namespace tasuki
