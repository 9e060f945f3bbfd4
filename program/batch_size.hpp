// Batches and memory: --find-batchsize, and the error of a batch that does not fit.
#pragma once

#include <functional>
#include <string_view>

#include "program/data/data.hpp"
#include "program/start/setup.hpp"
#include "program/training_run.hpp"

namespace tasuki::program {

// What the number of a batch that fits follows in an error; experiments show it in their tables.
inline constexpr std::string_view advice_on_batch = "the largest batch that fits is --batchsize ";

// For --find-batchsize: prints the largest --batchsize that every rank has memory for, on every
// device with its part of the batch, beside the data (which were scattered). Found by trial steps,
// after which nothing else can be done. An error of kind unavailable if a single example is
// too much. Collective; rank 0 prints.
void print_largest_batch(const RankSetup& setup, const TrainingSettings& settings,
                         const TrainingData& data, const TrialStep& trial);

// Calls `run`, which trains. If this rank runs out of memory in it, calls `end`, which frees what
// `run` has left in memory; the error then also says which batch would fit (found as above, by this
// rank alone).
void run_within_memory(const RankSetup& setup, const TrainingSettings& settings,
                       const TrainingData& data, const TrialStep& trial,
                       const std::function<void()>& run, const std::function<void()>& end);

}  // namespace tasuki::program
