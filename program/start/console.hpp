// Standard output of a job: rank 0's.
#pragma once

#include <string>

#include "tasuki/communicator/communicator.hpp"

namespace tasuki::program {

// Prints `text` at once on rank 0, nothing elsewhere.
void print_on_root(const Communicator& communicator, const std::string& text);

}  // namespace tasuki::program
