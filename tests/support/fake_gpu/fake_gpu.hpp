// GPUs that are not there: a backend that computes on the CPU in memory marked as a GPU's, and a
// transport between ranks in MPI's place of NCCL. What communicators ask of a GPU is done as late
// as a GPU may do it, when somebody waits for it, so that a wait that is missing shows as a wrong
// result.
#pragma once

#include <string>

namespace tasuki::testing {

// Registers both, with `gpus` GPUs in this process. Their ids carry `host`, as those of different
// machines differ.
void register_fake_gpus(int gpus, const std::string& host);

// Groups that were connected in this process so far.
int fake_groups_connected();

// What the next new_id() fails with; empty for none.
void fail_next_id(const std::string& message);

}  // namespace tasuki::testing
