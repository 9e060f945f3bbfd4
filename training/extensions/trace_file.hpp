// trace_file: a timeline of some steps of all ranks, in a file that Perfetto and Chrome open.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "training/extension.hpp"

namespace tasuki {

struct TraceSettings {
  std::filesystem::path file{};
  // The first iterations of a run allocate memory and choose algorithms.
  std::int64_t skipped = 3;
  std::int64_t steps = 50;  // at least 1
};

// Records `steps` iterations (fewer if the run ends before) and then writes them from rank 0, in
// Chrome's trace format: a process for each rank; in it rows of phases, waits, complete ranges of
// gradients, their exchange, and, on CPUs, the parts of each step. All ranks' clocks are compared
// with rank 0's before and after, and times are corrected by the difference, whose error is at most
// half the fastest round trip of a message. "otherData" describes the run: hosts, ranges of
// gradients in bytes, each rank's correction and its error in microseconds and, on CPUs, its
// memory in bytes: weights, rounded weights, gradients and states as this rank has them,
// all_gradients and all_states undivided, slots (of gradients that travel, if they are divided),
// the step (its largest peak beside what is left after a step), the process (its peak). A file that
// cannot be written is an error before the first iteration; later it is an error on all ranks.
std::unique_ptr<Extension> trace_file(TraceSettings settings);

}  // namespace tasuki
