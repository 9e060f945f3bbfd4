// A process's environment: its machine, its working folder, environment variables.
#pragma once

#include <filesystem>
#include <string>

namespace tasuki {

// The name of this machine, as gethostname() returns it: "node1".
std::string host_name();

// The working folder. A program may change it, so files that are opened later, or by threads, need
// it in their paths. Empty if the folder was removed.
std::filesystem::path present_folder();

// Whether an on/off environment variable is 1. False if it is 0, empty or not set; anything else is
// an error of kind usage, on all ranks that have it.
bool is_switched_on(const char* variable);

}  // namespace tasuki
