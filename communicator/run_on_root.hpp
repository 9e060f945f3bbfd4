// Work that one rank does for all, and work that fails on all ranks if it fails on one.
#pragma once

#include <functional>

#include "communicator/bytes.hpp"

namespace tasuki {

// Calls `work` on the root and returns its result on all ranks. An exception is thrown on all
// ranks, with Topology::shared_error_scope, so that no rank waits for one that gave up. Collective.
Bytes run_on_root(Communicator& communicator, int root, const std::function<Bytes()>& work);

// Calls `work`, which must not be collective, on every rank. If it throws on some ranks, the
// exception of the first of them is thrown on all, as above. Collective.
void run_on_all(Communicator& communicator, const std::function<void()>& work);

}  // namespace tasuki
