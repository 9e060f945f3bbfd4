// The networks that classify images, as stored in files.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/layer.hpp"
#include "tools/predict/trained_model.hpp"

namespace tasuki::predict {

// mlp (of train_mnist), and the models of models/catalog.
std::vector<std::string> image_networks();

// The network chosen by a training program's flags; nothing for other programs.
std::optional<std::string> image_network_of(const FinishedRun& run);

// The shape of its examples, if the name, the file or the run determines it.
std::optional<Shape> example_shape(const std::string& network, const TrainedModel& trained);

// The number of classes, from the size of the file's arrays that depend on it. Nothing if the file
// has no such array.
std::optional<std::int64_t> classes_in(const TrainedModel& trained, const std::string& network);

// `units`: of the hidden layers of mlp; default: from the file.
std::unique_ptr<Layer> create_image_network(const std::string& network, const TrainedModel& trained,
                                            const Shape& example, std::int64_t classes,
                                            std::optional<std::int64_t> units);

}  // namespace tasuki::predict
