// Batches and memory: --find-batchsize, and what to say when a batch does not fit.
#pragma once

#include <functional>

#include "common/job.hpp"
#include "common/training_options.hpp"
#include "tasuki/dataset/dataset.hpp"
#include "tasuki/training/updater.hpp"

namespace tasuki::apps {

// For --find-batchsize: the largest --batchsize that every rank has memory for, found by steps on
// zeros; no weight is updated. An error of kind unavailable when a single example is too much.
// Collective, printed by rank 0.
void print_largest_batch(const Job& job, const TrainingSettings& settings,
                         const DatasetHeader& train, const LossFunction& loss);

// Calls `train`. When this rank's memory runs out in it, the error says besides which batch would
// fit (found as above, by this rank alone).
void train_within_memory(const Job& job, const TrainingSettings& settings,
                         const DatasetHeader& data, const LossFunction& loss,
                         const std::function<void()>& train);

}  // namespace tasuki::apps
