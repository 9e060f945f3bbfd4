// From a rank's share of the data to its model: transforms, and iterators that read ahead.
#pragma once

#include <cstdint>
#include <memory>

#include "tasuki/dataset/scatter.hpp"
#include "tasuki/program/data/data.hpp"
#include "tasuki/program/engine.hpp"
#include "tasuki/program/training_settings.hpp"

namespace tasuki::program {

// With --augment: training examples are augmented and standardised, test examples standardised
// only.
Share with_augmentation(Share train, const TrainingSettings& settings);
Share with_standardization(Share test, const TrainingSettings& settings);

// Batches for the engine, read ahead by --loader-threads: for training shuffled and without end,
// for tests in order for one epoch.
std::unique_ptr<Iterator> training_batches(const TrainingData& data,
                                           const TrainingSettings& settings, const Engine& engine,
                                           Communicator& communicator);
std::unique_ptr<Iterator> test_batches(const TrainingData& data, const TrainingSettings& settings,
                                       const Engine& engine, Communicator& communicator);

// --loader-threads, or the default for the data.
std::int64_t loader_threads(const TrainingSettings& settings, const DatasetHeader& header);
// Batches that are held besides the one in use.
std::int64_t batches_ahead(const TrainingSettings& settings, const DatasetHeader& header);

}  // namespace tasuki::program
