// Whether the output is a terminal, how wide it is, and lines that fit it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <limits>
#include <string>
#include <string_view>

namespace tasuki {

// True if what is written to `stream` appears on a terminal. mpirun gives its ranks a pseudo
// terminal even if its own output goes into a file or a pipe; the answer is then mpirun's.
bool is_terminal(std::FILE* stream);
// True if it is a terminal that can move its cursor. If $TERM is "dumb" or not set (editors, CI),
// it gets only lines.
bool moves_cursor(std::FILE* stream);

inline constexpr std::size_t unlimited_width = std::numeric_limits<std::size_t>::max();
// For texts on any terminal, such as --help.
inline constexpr std::size_t usual_width = 79;
// The longest line, in characters, that the terminal shows without wrapping, one less than its
// columns: from its current size, else from $COLUMNS, else 80. Without a terminal there is no
// limit.
std::size_t line_width(std::FILE* stream);

// Breaks lines at blanks so that none is longer than `width` characters (UTF-8); what follows a
// break is indented by two. A word that is too long stays whole, so that a path can be copied.
std::string wrap_lines(std::string_view text, std::size_t width);

// Erases the terminal from the cursor on, such as a progress bar before a line is printed.
inline constexpr const char* erase_below = "\033[J";

// Whether a progress bar is shown below the cursor of the terminal on standard output.
void set_bar_shown(bool is_shown);
// Erases the bar, if there is one, so that a line can be printed. Async-signal-safe.
void end_bar() noexcept;

}  // namespace tasuki
