// Task: what models of one kind do with their input. Each task has a file and a line in
// create_tasks() (tasks.hpp).
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "core/file.hpp"
#include "nn/module.hpp"
#include "program/flags/options.hpp"
#include "tensor/device.hpp"
#include "tools/predict/settings.hpp"
#include "tools/predict/trained_model.hpp"

namespace tasuki::predict {

// What a task works with, besides its own flags.
struct TaskContext {
  const PredictionSettings& settings;
  const TrainedModel& trained;
  std::string network;  // one of the task's networks
  Communicator& communicator;
  Device device;  // of this rank
};

class Task {
 public:
  virtual ~Task() = default;
  // Names of the networks, the values of --arch.
  virtual std::vector<std::string> networks() const = 0;
  // The network of a training program's run; nothing if this task does not have it.
  virtual std::optional<std::string> network_of(const FinishedRun& run) const = 0;
  // Adds the flags that replace what about.json says of the network, and the task's other flags.
  // They are bound to this object.
  virtual void add_network_flags(program::Options& options) = 0;
  virtual void add_flags(program::Options& options) = 0;
  // The known map of PyTorch's names for these networks (saving/name_map.hpp).
  virtual std::string pytorch_names() const { return "torchvision"; }
  // The network, without weights, as files have it: of a classifier the predictor.
  virtual std::unique_ptr<Module> create_network(const TaskContext& context) const = 0;
  // This network, with its weights, as an ONNX model, or as several in files of similar names.
  virtual std::vector<FileContents> encode_onnx(const TaskContext& context, Module& model,
                                                const std::filesystem::path& file) const = 0;
  // Reads the input, runs the model, and writes the result (output.hpp). Collective.
  virtual void run(const TaskContext& context) = 0;
};

// Each from its own file.
std::unique_ptr<Task> create_classification();
std::unique_ptr<Task> create_generation();
std::unique_ptr<Task> create_translation();
std::unique_ptr<Task> create_text();

}  // namespace tasuki::predict
