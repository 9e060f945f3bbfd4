// What all training programs do once their flags are known.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "common/banner.hpp"
#include "common/job.hpp"
#include "common/training_options.hpp"
#include "tasuki/dataset/dataset.hpp"
#include "tasuki/nn/layer.hpp"

namespace tasuki::apps {

// What one has of its own.
struct TrainingProgram {
  std::string dataset;                 // by name (dataset/catalog.hpp)
  std::optional<Shape> example_shape;  // that the model takes; by itself as the data set has it
  std::function<std::unique_ptr<Layer>(const DatasetHeader&)> create_model;
  BannerLines banner;  // lines of its own
};

// ChainerMN's training program: a multi-node optimizer for the model, the data scattered from rank
// 0, a trainer with a multi-node evaluator and what the flags ask for; banner, table, summary. With
// --dry-run it says what it would do. Collective.
void run_training(const Job& job, const TrainingSettings& settings, const TrainingProgram& program);

}  // namespace tasuki::apps
