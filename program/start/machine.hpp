// The machine in a line, for tables and records.
#pragma once

#include <string>

namespace tasuki::program {

// "2 cores of Intel(R) Xeon(R) ..., Linux 6.1".
std::string describe_machine();

}  // namespace tasuki::program
