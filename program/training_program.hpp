// What all training programs do once their flags are known.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tasuki/dataset/dataset.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/program/banner.hpp"
#include "tasuki/program/job.hpp"
#include "tasuki/program/training_options.hpp"
#include "tasuki/training/updater.hpp"

namespace tasuki::program {

// What trains a model, and the loss that it is evaluated by.
struct TrainingEngine {
  std::unique_ptr<Updater> updater;
  LossFunction evaluation_loss;
};

// What one has of its own.
struct TrainingProgram {
  std::string dataset;                 // by name (dataset/catalog.hpp)
  std::int64_t image_side = 32;        // of images of a folder of one's own
  std::optional<Shape> example_shape;  // that the model takes; by itself as the data set has it
  std::function<std::unique_ptr<Layer>(const DatasetHeader&)> create_model;
  BannerLines banner;  // lines of its own
  // For the optimizer's model, on the job's device, and activations of this type on GPUs; by itself
  // a StandardUpdater. May be called again when the engine before is no more.
  std::function<TrainingEngine(const DatasetHeader&, Classifier& model, Optimizer&,
                               std::unique_ptr<Iterator>, DType activations)>
      create_engine;
  std::vector<Device> engine_devices;  // that such an engine computes on, the job's first
};

// ChainerMN's training program: a multi-node optimizer for the model, the data scattered from rank
// 0, a trainer with a multi-node evaluator and what the flags ask for; banner, table, summary. With
// --dry-run it says what it would do, after the same checks of --out and --resume. Collective.
void run_training(const Job& job, const TrainingSettings& settings, const TrainingProgram& program);

}  // namespace tasuki::program
