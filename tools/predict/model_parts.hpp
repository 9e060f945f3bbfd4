// Weights of a model that was trained on several ranks: each part is in a file of its own
// (snapshot_iter_600.0, .1, ...). They are put together here, so that a model is used on any number
// of ranks, also on one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.hpp"
#include "saving/npz.hpp"

namespace tasuki::predict {

// The files of a model: usually one, else that of each part in the order of ranks.
struct ModelFiles {
  std::filesystem::path place;  // as a user calls it: of parts without their suffix
  std::vector<std::unique_ptr<ArraySource>> parts;
};

// `path` is a file with or without the suffix of a part, a checkpoint, or an output folder, of
// which the newest intact one is taken. A part that is missing is an error.
ModelFiles open_model(const std::filesystem::path& path);

// Loads a whole model. An array that has its full shape in the parts is that of the first part that
// has it; any other is divided along one axis, and the parts follow each other there
// (parallel/split_layers.hpp). Arrays that do not fit are an error of kind data that names the
// first of them. `prefix`: of the entries' names.
void load_parts(const ModelFiles& files, const std::string& prefix, const Module& model);

}  // namespace tasuki::predict
