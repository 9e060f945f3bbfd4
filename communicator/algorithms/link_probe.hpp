// Measures the link between the nodes of a job, by which allreduce algorithms are chosen.
#pragma once

#include <optional>

#include "tasuki/communicator/algorithms/cost.hpp"
#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

// The first rank of each node sends to the next node while it receives from the previous one, as in
// a ring: first short messages, then longer and longer ones. Returns the median time of a round of
// short ones and the rate of the fastest round of the longest ones, both of the slowest rank;
// nothing if all ranks are on one node. Begins no round that is expected to end after
// `most_seconds`, so it takes longer only if 64 KiB alone do. The same on all ranks. Collective.
std::optional<Link> probe_link(const Communicator& communicator, double most_seconds = 0.3);

}  // namespace tasuki
