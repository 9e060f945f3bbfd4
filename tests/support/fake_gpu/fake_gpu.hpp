// GPUs that are not there: a backend that computes on the CPU in memory marked as a GPU's, and a
// transport between ranks that uses MPI instead of NCCL. Work that communicators queue on a GPU is
// done as late as a GPU may do it, when it is waited for, so that a missing wait shows as a wrong
// result.
#pragma once

#include <string>

namespace tasuki::testing {

// Registers both.
void register_fake_gpus();

// Groups that were connected in this process so far.
int fake_groups_connected();

// What the next new_id() fails with; empty for none.
void fail_next_id(const std::string& message);

}  // namespace tasuki::testing
