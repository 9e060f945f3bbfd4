// Measures the links of a job, between and inside nodes. The allreduce algorithm is chosen by the
// times predicted from these measurements.
#pragma once

#include <optional>

#include "communicator/algorithms/algorithm_cost.hpp"
#include "communicator/communicator.hpp"

namespace tasuki {

struct Links {
  std::optional<Link> between{};  // two nodes; empty: all ranks are on one node
  std::optional<Link> inside{};   // two ranks of a node, by messages; empty: each node has one rank
};

// The first rank of each node sends to the next node while it receives from the previous one, as in
// a ring: first short messages, then longer and longer ones. Then the ranks of each node do the
// same among themselves. A link's latency is the median time of a round of short messages; its rate
// is the rate of the fastest round of the longest messages; both on the slowest rank. A round that
// is expected to end after `most_seconds` is not begun; the first round, of 64 KiB, may take
// longer. The result is the same on all ranks. Collective.
Links probe_links(const Communicator& communicator, double most_seconds = 0.3);

}  // namespace tasuki
