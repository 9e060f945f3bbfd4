// Which settings make a model fit in the memory of a machine. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/simulate/memory.hpp"
#include "tools/simulate/model.hpp"

namespace tasuki::simulate {

struct FitQuestion {
  Workload workload;  // of a step in one pass with nothing recomputed
  ModelMemory memory;
  Cluster cluster{};
  int ranks = 1;
  bool overlaps = true;
  std::int64_t examples = 1;  // of a rank in a step, at least 1
};

struct FitRow {
  Choice choice;
  std::int64_t batch = 1;  // examples of a rank in a pass
  MachineMemory memory{};
  Prediction prediction{};
};

// With bf16, compute times are assumed to be those of the trace.
FitRow row_of(const FitQuestion& question, const Choice& choice);

// Settings with which a machine needs at most `bytes`, the fastest first. All have the same
// examples in a step. For each combination of bf16 and sharding, with and without recomputed
// blocks, the fewest passes that fit count; recomputed are only blocks that cannot be kept. Left
// out is what takes no less time than a row with a part of its changes. Empty if nothing fits.
std::vector<FitRow> settings_that_fit(const FitQuestion& question, double bytes);

// The settings that need least memory.
FitRow smallest(const FitQuestion& question);

// The flags of a training program: "--batchsize 16 --accumulate 4 --recompute auto".
std::string flags_of(const FitRow& row);

}  // namespace tasuki::simulate
