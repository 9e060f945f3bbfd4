// TrainingModel: a model and what it learns from.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nn/module.hpp"
#include "training/micro_batches.hpp"
#include "training/updater.hpp"

namespace tasuki {

// A LossFunction that returns a loss for each of several optimizers, in their order.
using LossesFunction =
    std::function<std::vector<Variable>(const Batch& batch, Observation& report)>;

// A model, and its loss on a batch. The loss refers to the model.
struct TrainingModel {
  std::unique_ptr<Module> model;
  LossFunction loss;
  // False for a part of a model whose loss is on another rank. `loss` then returns the delegate
  // variable at which this part's backward pass starts (MultiNodeChainList), and reports nothing.
  bool has_loss = true;
  // A module with an optimizer of its own; both have this name in snapshots. Without parts, the
  // whole model has one optimizer, "main".
  struct Part {
    std::string name;
    Module& module;
    std::string init = {};  // file with its initial weights, like --init for the whole model
  };
  std::vector<Part> parts = {};
  // The loss of each part; `loss` is then for evaluations only.
  LossesFunction losses = {};
  // For a stage of a Pipeline (parallel/pipeline.hpp): trained by a PipelineUpdater.
  MicroBatches micro_batches = {};
};

}  // namespace tasuki
