// A process's environment: its machine, environment variables.
#pragma once

#include <string>

namespace tasuki {

// The name of this machine, as gethostname() returns it: "node1".
std::string host_name();

// Whether an on/off environment variable is 1. False if it is 0, empty or not set; anything else is
// an error of kind usage, on all ranks that have it.
bool is_switched_on(const char* variable);

}  // namespace tasuki
