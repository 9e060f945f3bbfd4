// The folder that a run would write into.
#pragma once

#include <string>

#include "communicator/communicator.hpp"
#include "tools/doctor/report.hpp"

namespace tasuki::doctor {

// Rank 0 writes and syncs files in `folder` (or, while that does not exist, in the nearest folder
// above it that does), and the other hosts look for one of them. Leaves nothing behind. `is_quick`:
// does not measure the speed of long files. Collective.
void check_output(Communicator& communicator, const std::string& folder, bool is_quick,
                  Report& report);

}  // namespace tasuki::doctor
