// Weights of a model in a file, as Chainer's save_npz and load_npz write them: entries
// "predictor/l1/W" (out x in), "predictor/l1/b", and buffers by their paths. Files of other
// frameworks have other names: name_map.hpp.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.hpp"
#include "saving/array_source.hpp"

namespace tasuki {

// Call it on one rank only, because all ranks hold the same weights.
void save_npz(const std::filesystem::path& path, const Module& model);

// The same arrays, with the same names, in a safetensors file.
void save_safetensors(const std::filesystem::path& path, const Module& model);

// Loads all parameters and buffers of `model`, or changes nothing: a missing entry (unless the
// source may lack it) or one of another shape is an error that names it and says how many differ.
// Parameters without a shape take the file's, if they are in it. Entries that the model lacks are
// ignored. `prefix` precedes the entries' names: "updater/model:main/" for the model in a snapshot.
// Either each rank reads the file itself, or rank 0 alone reads it before the multi-node
// optimizer's setup(), which broadcasts the weights.
void load_npz(const std::filesystem::path& path, const Module& model,
              const std::string& prefix = "");
// load_npz() from an open file or checkpoint. Only the model's entries are read.
void load_npz(const ArraySource& source, const Module& model, const std::string& prefix = "");

// The names of all arrays that files may have of the model: parameters, with or without a shape,
// and buffers.
std::vector<std::string> array_names(const Module& model);

// Opens a model file: NPZ, or safetensors by its first bytes.
std::unique_ptr<ArraySource> open_model_file(const std::filesystem::path& path);

// Names of `source`'s entries below `prefix` that the model lacks, without the prefix.
std::vector<std::string> entries_not_in(const Module& model, const ArraySource& source,
                                        const std::string& prefix = "");

// The differences between `source`'s entries below `prefix` and `model`, as one line; empty if the
// source fits.
std::string describe_difference(const ArraySource& source, const std::string& prefix,
                                const Module& model);

// load_npz() for models that no rank has room for: each array is read and passed to `check` now,
// and read again when its parameter's values are first read (Parameter::initialize_later).
using CheckArray = std::function<void(const std::string& name, const Tensor& values)>;
void load_npz_later(const std::shared_ptr<const ArraySource>& source, const Module& model,
                    const std::string& prefix, const CheckArray& check);

}  // namespace tasuki
