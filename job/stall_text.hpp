// How it is said that a job stands still.
#pragma once

#include <span>
#include <string>

#include "tasuki/job/stall.hpp"

namespace tasuki {

// "rank 1 on node2 is loading a batch (epoch 0, iteration 57) while 3 ranks wait in sum_gradients
// number 57 of single_node (401408 bytes)": one line.
std::string describe_stall(const Stall& stall, std::span<const RankView> ranks,
                           double silent_seconds);

// Of each rank, culprits first, what it was last seen doing and for how long; of many ranks the
// first ones.
std::string stall_table(const Stall& stall, std::span<const RankView> ranks, double silent_seconds);

}  // namespace tasuki
