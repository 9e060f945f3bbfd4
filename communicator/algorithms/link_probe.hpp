// Measures the links of a job, between nodes and inside them, by which allreduce algorithms are
// chosen.
#pragma once

#include <optional>

#include "tasuki/communicator/algorithms/cost.hpp"
#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

struct Links {
  std::optional<Link> between{};  // nodes; empty: all ranks are on one
  std::optional<Link> inside{};   // a node, in messages; empty: none has several ranks
};

// The first rank of each node sends to the next node while it receives from the previous one, as in
// a ring: first short messages, then longer and longer ones. Then the ranks of each node do the
// same. A link has the median time of a round of short ones and the rate of the fastest round of
// the longest ones, both of the slowest rank. Begins no round that is expected to end after
// `most_seconds`, so it takes longer only if 64 KiB alone do. The same on all ranks. Collective.
Links probe_links(const Communicator& communicator, double most_seconds = 0.3);

}  // namespace tasuki
