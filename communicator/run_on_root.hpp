// Runs work on one rank for all, or on all ranks, so that a failure is thrown on every rank.
#pragma once

#include <functional>

#include "communicator/bytes.hpp"

namespace tasuki {

// Calls `work` on the root and returns its result on all ranks. An exception is thrown on all
// ranks, with Topology::shared_error_scope, so that no rank waits for one that has failed.
// Collective.
Bytes run_on_root(Communicator& communicator, int root, const std::function<Bytes()>& work);

// Calls `work`, which must not be collective, on every rank. If it throws on some ranks, all ranks
// throw the exception of the first of these, as above. Collective.
void run_on_all(Communicator& communicator, const std::function<void()>& work);

}  // namespace tasuki
