// A data set's files as flags name them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tasuki/dataset/catalog.hpp"
#include "tasuki/program/training_options.hpp"

namespace tasuki::program {

// The folder of data set `name` by --data or the usual places, looked up by rank 0 for all ranks.
// Collective.
std::filesystem::path find_data(Communicator& communicator, const std::string& name,
                                const TrainingSettings& settings);

// Opens a split of the data set in `folder`, with examples of the model's shape when one is given,
// cut after `limit`. Images of a folder of one's own are made `image_side` pixels high and wide.
OpenSource open_split(const std::string& name, const std::filesystem::path& folder, DataSplit split,
                      const std::optional<Shape>& example_shape, std::optional<std::int64_t> limit,
                      std::int64_t image_side = 32);

// What rank 0 reads the examples from, once DataSource::check has found nothing; null on other
// ranks. Collective.
std::unique_ptr<DataSource> open_checked(const OpenSource& open, Communicator& communicator);

}  // namespace tasuki::program
