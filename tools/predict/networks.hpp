// The networks that classify images, as they are in a file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/layer.hpp"
#include "tools/predict/trained_model.hpp"

namespace tasuki::predict {

// mlp (of train_mnist), and those of models/catalog.
std::vector<std::string> image_networks();

// The network that a training program's flags chose; nothing for other programs.
std::optional<std::string> image_network_of(const TrainingRun& run);

// The shape of its examples, if the name, the file or the run says it.
std::optional<Shape> example_shape(const std::string& network, const TrainedModel& trained);

// The number of classes according to the file: the size of the arrays that depend on it. Nothing
// if the file has none of them.
std::optional<std::int64_t> classes_in(const TrainedModel& trained, const std::string& network);

// `units`: of the hidden layers of mlp; default: those in the file.
std::unique_ptr<Layer> create_image_network(const std::string& network, const TrainedModel& trained,
                                            const Shape& example, std::int64_t classes,
                                            std::optional<std::int64_t> units);

}  // namespace tasuki::predict
