// Whether somebody watches.
#pragma once

#include <cstdio>

namespace tasuki {

// True when what is written to `stream` appears on a terminal. mpirun gives its ranks a pseudo
// terminal even when its own output goes into a file or a pipe; the answer is then mpirun's.
bool is_terminal(std::FILE* stream);

// Erases what stands on a terminal from the cursor on: a progress bar, before a line is printed.
inline constexpr const char* erase_below = "\033[J";

}  // namespace tasuki
