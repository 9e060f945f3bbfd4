// Text from files and command lines, for messages of one line.
#pragma once

#include <string>
#include <string_view>

namespace tasuki {

// The text with '?' for each character that controls a terminal, line breaks among them; what is
// longer than `most` characters is cut and ends in "...".
std::string printable(std::string_view text, std::size_t most = std::string_view::npos);

}  // namespace tasuki
