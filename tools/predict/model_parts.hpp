// Weights of a model that was trained on several ranks. Each part has its own file
// (snapshot_iter_600.0, .1, ...); joined here, the model can be used on any number of ranks.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nn/module.hpp"
#include "saving/npz.hpp"

namespace tasuki::predict {

// The files of a model: usually one, otherwise one for each part, in the order of ranks.
struct ModelFiles {
  std::filesystem::path place;  // as a user names it: without the suffix of a part
  std::vector<std::unique_ptr<ArraySource>> parts;
};

// `path` is a file with or without the suffix of a part, a checkpoint, or an output folder, whose
// newest intact state is taken. A missing part is an error.
ModelFiles open_model(const std::filesystem::path& path);

// Loads a whole model. An array with its full shape is taken from the first part that has it; any
// other array is divided along one axis, and its parts are concatenated
// (parallel/split_layers.hpp). If arrays do not fit, an error of kind data names the first.
// `prefix`: of the entries' names. `map`: of their names in a model file (--model-map).
void load_parts(const ModelFiles& files, const std::string& prefix,
                const std::optional<std::string>& map, const Module& model);

}  // namespace tasuki::predict
