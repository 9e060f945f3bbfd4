// Whether all ranks run the same program.
#pragma once

#include <string>
#include <vector>

#include "communicator/communicator.hpp"

namespace tasuki::program {

// Throws on all ranks unless all run the same build of the same program (core/version.hpp) with
// the same arguments. Another build may round differently. Equal arguments mean equal settings,
// because rank 0 reads the config file for all. Collective.
void check_same_program(Communicator& communicator, const std::vector<std::string>& arguments);

}  // namespace tasuki::program
