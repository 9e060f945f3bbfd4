// What stands between a rank's share of the data and its model: transforms, and threads that read
// ahead.
#pragma once

#include <memory>

#include "tasuki/dataset/iterators/share_iterator.hpp"
#include "tasuki/dataset/scatter.hpp"
#include "tasuki/program/training_options.hpp"

namespace tasuki::program {

// With --augment: training examples augmented and standardised, test examples standardised only.
Share with_augmentation(Share train, const TrainingSettings& settings);
Share with_standardization(Share test, const TrainingSettings& settings);

// --loader-threads, or what suits the data.
std::int64_t loader_threads(const TrainingSettings& settings, const DatasetHeader& header);
// The iterator with that many threads reading ahead of it.
std::unique_ptr<Iterator> read_ahead(std::unique_ptr<ShareIterator> iterator,
                                     const TrainingSettings& settings, const DatasetHeader& header);
// Batches that are held besides the one in use.
std::int64_t batches_ahead(const TrainingSettings& settings, const DatasetHeader& header);

}  // namespace tasuki::program
