// Batches and memory: --find-batchsize, and what to say when a batch does not fit.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "tasuki/dataset/scatter.hpp"
#include "tasuki/program/job.hpp"
#include "tasuki/program/precision.hpp"
#include "tasuki/program/training_options.hpp"
#include "tasuki/training/updater.hpp"

namespace tasuki::program {

// A job as far as the memory of its steps is concerned.
struct StepsInMemory {
  DatasetHeader header;         // of the examples
  Share train, test;            // this rank's, in the host's memory already
  std::vector<Device> devices;  // that a step computes on
  Precision precision;
  LossFunction loss;  // of a model on the only device
  // For several devices, makes what deals batches of the host to all of them.
  std::function<std::unique_ptr<Updater>(std::unique_ptr<Iterator>)> create_updater;
};

// For --find-batchsize: the largest --batchsize that every rank has memory for, on every device
// with its part of the batch, beside the data. Found by steps on zeros, with several devices
// updates, after which nothing else can be done. An error of kind unavailable when a single example
// is too much. Collective, printed by rank 0.
void print_largest_batch(const Job& job, const TrainingSettings& settings,
                         const StepsInMemory& steps);

// Calls `train`. When this rank's memory runs out in it, calls `end`, which gives back what `train`
// has left in memory; the error says besides which batch would fit (found as above, by this rank
// alone).
void train_within_memory(const Job& job, const TrainingSettings& settings,
                         const StepsInMemory& steps, const std::function<void()>& train,
                         const std::function<void()>& end);

}  // namespace tasuki::program
