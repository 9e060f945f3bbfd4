// Name of this machine.
#pragma once

#include <string>

namespace tasuki {

// As gethostname() has it: "node1".
std::string host_name();

}  // namespace tasuki
