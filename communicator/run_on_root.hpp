// Work that one rank does for all, and work whose failure on any rank is everybody's.
#pragma once

#include <functional>

#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

// Calls `work` on the root and gives its result to all ranks. What it throws is thrown on all
// ranks, as an error that they all meet (Topology::shared_error_scope), so that nobody waits for a
// rank that gave up. Collective.
Bytes run_on_root(Communicator& communicator, int root, const std::function<Bytes()>& work);

// Calls `work`, which is not collective, on every rank. Where it throws on some, what the first of
// them threw is thrown on all, in the same way. Collective.
void run_on_all(Communicator& communicator, const std::function<void()>& work);

}  // namespace tasuki
