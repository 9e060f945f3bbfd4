// Processes that user code has started and left behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace tasuki {

// Processes started by this one, directly or not, that hold its standard output or standard error
// open. A launcher waits for them even when this process has ended. Where such a process has lost
// its parent, it is known by having left the launcher's tree.
std::vector<pid_t> holders_of_output();

// Returns when there are none. Names those that are there after a second, in one line that begins
// "warning: `who`: ", and ends them `longest` after that.
void end_holders_of_output(const std::string& who, std::chrono::seconds longest);

}  // namespace tasuki
