// Whether all ranks are about to do the same thing.
#pragma once

#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

// Compares `lines` (one statement each: "parameter l1/W 1000x784") between all ranks. Where they
// differ, every rank throws the same error of kind disagreement: it names the first rank that
// differs from rank 0 and the first line in which it does, and ends with `rule`, which says what
// must be the same. Collective; 8 bytes a rank when equal.
void check_agreement(Communicator& communicator, const std::vector<std::string>& lines,
                     const std::string& rule);

}  // namespace tasuki
