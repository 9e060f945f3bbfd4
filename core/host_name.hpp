// Name of this machine.
#pragma once

#include <string>

namespace tasuki {

// As gethostname() returns it: "node1".
std::string host_name();

}  // namespace tasuki
