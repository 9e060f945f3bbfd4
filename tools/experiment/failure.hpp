// Why a run has no result.
#pragma once

#include <string>
#include <string_view>

#include "tools/processes/run_to_end.hpp"

namespace tasuki::experiment {

using processes::EndedProcess;

// The cause in one line, from how the program ended and what it printed; empty for exit code 0. A
// run that ran out of memory, or that was killed without a message (as the kernel does when memory
// is short), begins with that. `timeout`: the limit of the run in seconds.
std::string describe_failure(const EndedProcess& ended, double timeout, std::string_view output);

// What a table shows in place of numbers: such a beginning, with the largest batch per rank that
// fits if the program reported it; or "failed".
std::string failure_mark(std::string_view failure);

}  // namespace tasuki::experiment
