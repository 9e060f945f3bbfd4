// Whether the output is a terminal, and how wide it is.
#pragma once

#include <cstddef>
#include <cstdio>
#include <limits>

namespace tasuki {

// True if what is written to `stream` appears on a terminal. mpirun gives its ranks a pseudo
// terminal even if its own output goes into a file or a pipe; the answer is then mpirun's.
bool is_terminal(std::FILE* stream);

inline constexpr std::size_t unlimited_width = std::numeric_limits<std::size_t>::max();
// The longest line, in characters, that the terminal shows without wrapping, one less than its
// columns: from the present size, else from $COLUMNS, else 80. Without a terminal there is no
// limit.
std::size_t line_width(std::FILE* stream);

// Erases a terminal from the cursor on: a progress bar, before a line is printed.
inline constexpr const char* erase_below = "\033[J";

// Whether a progress bar is shown below the cursor of the terminal on standard output.
void set_bar_shown(bool is_shown);
// Erases it, if there is one, so that a line can be printed. Async-signal-safe.
void end_bar() noexcept;

}  // namespace tasuki
