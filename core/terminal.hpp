// Whether somebody watches, and on how wide a screen.
#pragma once

#include <cstddef>
#include <cstdio>
#include <limits>

namespace tasuki {

// True when what is written to `stream` appears on a terminal. mpirun gives its ranks a pseudo
// terminal even when its own output goes into a file or a pipe; the answer is then mpirun's.
bool is_terminal(std::FILE* stream);

inline constexpr std::size_t unlimited_width = std::numeric_limits<std::size_t>::max();
// Characters that a line may have on that terminal without wrapping, one less than its columns:
// those that it has now, else $COLUMNS, else 80. Without a terminal there is no limit.
std::size_t line_width(std::FILE* stream);

// Erases what stands on a terminal from the cursor on: a progress bar, before a line is printed.
inline constexpr const char* erase_below = "\033[J";

// Whether a progress bar stands below the cursor on the terminal that standard output is.
void set_bar_shown(bool is_shown);
// Erases it, if there is one, so that a line can be printed. Async-signal-safe.
void end_bar() noexcept;

}  // namespace tasuki
