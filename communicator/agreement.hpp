// Checks that all ranks are about to do the same work.
#pragma once

#include <string>
#include <vector>

#include "communicator/communicator.hpp"

namespace tasuki {

// Compares `lines` (one statement each, such as "parameter l1/W 1000x784") between all ranks. If
// they differ, all ranks throw the same error of kind disagreement. It names the first rank that
// differs from rank 0 and the first line that differs, and ends with `rule`, which says what must
// be the same. Collective; sends 8 bytes per rank if all lines are equal.
void check_agreement(Communicator& communicator, const std::vector<std::string>& lines,
                     const std::string& rule);

}  // namespace tasuki
