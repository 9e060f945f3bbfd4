// Text about stalls and about what ranks are doing.
#pragma once

#include <span>
#include <string>

#include "job/stall.hpp"

namespace tasuki {

// One line: "rank 1 on node2 is loading a batch (epoch 0, iteration 57) while 3 ranks wait in
// sum_gradients number 57 of single_node (401408 bytes)".
std::string describe_stall(const Stall& stall, std::span<const RankView> ranks,
                           double silent_seconds);

// A table of what each rank was last seen doing, and for how long, culprits first. Cut off after
// the first ranks of many.
std::string stall_table(const Stall& stall, std::span<const RankView> ranks, double silent_seconds);

// A table of all ranks in their order: host, epoch and iteration (counted from 1, "-" where no
// training runs), resident memory, seconds without progress, and the phase with what the rank waits
// for.
std::string state_table(std::span<const RankView> ranks, double silent_seconds);

}  // namespace tasuki
