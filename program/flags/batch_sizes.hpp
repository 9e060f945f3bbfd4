// How many examples a step has, by --batchsize, --global-batch and --accumulate. The largest batch
// that memory has room for is found by program/largest_batch.hpp.
#pragma once

#include <cstdint>

#include "program/flags/options.hpp"
#include "program/flags/training_settings.hpp"

namespace tasuki::program {

// The range of --batchsize and --global-batch.
inline constexpr IntegerRange batch_sizes = {1, 1 << 24};

// Examples of a step on all ranks together. A global batch smaller than the number of ranks is a
// usage error.
std::int64_t global_batch(const TrainingSettings& settings, int ranks);
// The largest number of these examples on one rank.
std::int64_t largest_rank_batch(const TrainingSettings& settings, int ranks);
// The largest number of examples in one forward pass: those of a rank, or with --reproducible those
// of a shard.
std::int64_t largest_pass(const TrainingSettings& settings, int ranks);
// Examples of an update on all ranks; the last update of an epoch may have fewer.
std::int64_t examples_of_update(const TrainingSettings& settings, int ranks);

}  // namespace tasuki::program
