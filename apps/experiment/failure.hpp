// Why a run has no result.
#pragma once

#include <string>
#include <string_view>

#include "experiment/process.hpp"

namespace tasuki::experiment {

// The error that a program ended with, or else the last line in words of what it wrote.
std::string last_words(std::string_view output);

// In one line, from how the program ended and what it wrote. One that ran out of memory, or that
// was killed and said nothing, as the kernel does where there is no memory left, begins with that.
// `timeout`: the seconds it had. Empty for exit code 0.
std::string describe_failure(const EndedProcess& ended, double timeout, std::string_view output);

// What a table has in place of numbers: such a beginning, or "failed".
std::string failure_mark(std::string_view failure);

}  // namespace tasuki::experiment
