// The largest batch that fits in memory: --find-batchsize, and the error of a batch that does not.
#pragma once

#include <functional>
#include <string_view>

#include "nn/recompute.hpp"
#include "program/data/training_data.hpp"
#include "program/start/rank_setup.hpp"
#include "program/training_run.hpp"

namespace tasuki::program {

// Precedes the number of a batch that fits, in an error; experiments show the number in their
// tables.
inline constexpr std::string_view advice_on_batch = "the largest batch that fits is --batchsize ";

// For --find-batchsize: prints the largest --batchsize for which every rank has memory on each of
// its devices, besides the scattered data. Makes trial steps, after which the model is of no use.
// An error of kind unavailable if a single example does not fit. Collective; rank 0 prints.
void print_largest_batch(const RankSetup& setup, const TrainingSettings& settings,
                         const TrainingData& data, const TrialStep& trial);

// Bytes on the rank's device.
struct StepRoom {
  std::size_t step = 0;  // that a step takes at its peak, beside what is in use
  std::size_t left = 0;  // that may be used beside a step; 0 if the step does not fit
};
// Of a step of `n` of the longest examples. Makes a trial step, which changes running statistics
// alone.
StepRoom room_beside_step(const RankSetup& setup, const TrainingSettings& settings,
                          const TrainingData& data, const TrialStep& trial, std::int64_t n);

// Calls `run`, which trains. If this rank runs out of memory in it, calls `end`, which frees what
// `run` has left in memory; the error then also says which batch would fit (found as above, by this
// rank alone), and that --recompute would help if the model has blocks that are kept.
void run_within_memory(const RankSetup& setup, const TrainingSettings& settings,
                       const TrainingData& data, const TrialStep& trial, const RecomputePlan& plan,
                       const std::function<void()>& run, const std::function<void()>& end);

}  // namespace tasuki::program
