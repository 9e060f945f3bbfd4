// A file with the weights of a model, and what is known about the run that trained it.
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

namespace tasuki::predict {

// From about.json beside the file (program/report/about.hpp). Everything is empty if there is none,
// or an older one without these.
struct TrainingRun {
  std::string program;
  std::map<std::string, std::string> flags;
  std::string dataset, data;  // its name and its folder
  std::optional<Shape> example;
  std::vector<std::string> class_names;
  std::map<std::string, std::string> vocabularies;  // hashes by flag

  // The text of a flag; nothing if it is not known.
  std::optional<std::string> flag(const std::string& name) const;
  // Its value if it is a number, else `other`.
  std::int64_t number(const std::string& name, std::int64_t other) const;
};

// Calls `read`, which reads files that about.json names; its errors say so.
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
  std::filesystem::path file;           // of parts without their suffix (model_parts.hpp)
  std::string prefix;                   // of the model's entries in the file
  std::map<std::string, Shape> shapes;  // of these, without the prefix; divided: of the first part
  TrainingRun run;
};

// A checkpoint, a snapshot or a model file (Chainer's save_npz), or the newest intact one of these
// in a run's folder. Rank 0 reads it for all; its errors are errors on all ranks. Collective.
TrainedModel find_trained_model(const std::string& path, Communicator& communicator);

// Gives all ranks' models, which are on CPUs, the file's weights. One that does not fit the file is
// an error of kind data that names the first difference. Collective.
void load_weights(const TrainedModel& trained, const Module& model, Communicator& communicator);

}  // namespace tasuki::predict
