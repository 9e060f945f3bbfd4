// A file with a model's weights, and the description of the run that trained it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "core/error.hpp"
#include "nn/module.hpp"
#include "tensor/shape.hpp"
#include "tools/predict/settings.hpp"

namespace tasuki::predict {

// From about.json beside the file (program/report/about.hpp). Members are empty without such a
// file, or if an older version did not write them.
struct FinishedRun {
  std::string program;
  std::map<std::string, std::string> flags;
  std::string dataset, data;  // its name and its folder
  std::optional<Shape> example;
  std::vector<std::string> class_names;
  std::map<std::string, std::string> vocabularies;  // hashes by flag

  // The text of a flag; nothing if unknown.
  std::optional<std::string> flag(const std::string& name) const;
  // The flag's value if it is a number, else `other`.
  std::int64_t number(const std::string& name, std::int64_t other) const;
};

// Calls `read`, which reads files that about.json names; adds this to its errors.
template <class Read>
auto read_as_told(const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(error.kind(),
                fmt::format("{} (about.json beside the model names this file)", error.what()),
                error.scope());
  }
}

struct TrainedModel {
  std::filesystem::path file;  // without the suffix of a part (model_parts.hpp)
  std::string prefix;          // of the model's entries in the file
  // Of the entries, without the prefix; if divided, of the first part. Entries of a file that may
  // have the names of another framework are here under all names that they may have in a model.
  std::map<std::string, Shape> shapes;
  std::optional<std::string> map;  // --model-map
  FinishedRun run;
};

// settings.model: a checkpoint, a snapshot or a model file, or the newest intact one of these in a
// run's folder. Rank 0 reads it for all; its errors are errors on all ranks. Collective.
TrainedModel find_trained_model(const PredictionSettings& settings, Communicator& communicator);

// Gives all ranks' models, which are on CPUs, the file's weights. If the model does not fit the
// file, an error of kind data names the first difference. Collective.
void load_weights(const TrainedModel& trained, const Module& model, Communicator& communicator);

}  // namespace tasuki::predict
