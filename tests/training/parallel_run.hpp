// What tests of ParallelUpdater share: the same small run with and without workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "dataset/iterators/share_iterator.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/sequential.hpp"
#include "scripted_updater.hpp"
#include "small_run.hpp"
#include "training/workers/parallel_updater.hpp"

namespace tasuki::testing {

// Without batch normalisation, which depends on how a batch is split.
inline std::unique_ptr<Classifier> dropout_model(std::uint64_t seed) {
  auto net = std::make_unique<Sequential>();
  net->append("l1", std::make_unique<Linear>(12, 20)).append(functions::relu);
  net->append([](const Variable& x) { return functions::dropout(x, 0.3F); });
  net->append("l2", std::make_unique<Linear>(20, 4));
  auto model = std::make_unique<Classifier>(std::move(net));
  model->initialize(seed);
  return model;
}

using MakeModel = std::function<std::unique_ptr<Classifier>(std::uint64_t seed)>;

// A run of as many workers as the split has.
struct ParallelRun {
  struct Options {
    std::int64_t examples = 97, batch = 24;
    ParallelUpdater::Weights weights = ParallelUpdater::Weights::as_devices_need;
    int threads = 1;
    MakeModel make = dropout_model;
    // Instead of classification_loss(models[i]).
    std::function<LossFunction(std::size_t worker, Classifier& model)> loss = {};
    bool knows_global_batches = true;
    // Before setup().
    std::function<void(Optimizer&)> configure = [](Optimizer&) {};
    std::function<std::unique_ptr<Optimizer>()> optimizer = [] {
      return create_optimizer("momentum_sgd");
    };
  };

  explicit ParallelRun(BatchSplit split) : ParallelRun(std::move(split), Options()) {}
  ParallelRun(BatchSplit split, const Options& options) : optimizer(options.optimizer()) {
    std::vector<ParallelUpdater::Worker> workers;
    for (std::size_t i = 0; i < split.workers(); ++i) {
      // Further models begin with other weights, which must not matter.
      models.push_back(options.make(5 + i));
      workers.push_back(
          {*models[i], options.loss ? options.loss(i, *models[i]) : classification_loss(*models[i]),
           options.threads});
    }
    options.configure(*optimizer);
    optimizer->setup(*models[0]);
    ParallelUpdater::Settings settings;
    settings.seed = 3;
    settings.split = std::move(split);
    settings.weights = options.weights;
    std::unique_ptr<Iterator> batches =
        create_shuffled_iterator(share_of(synthetic(options.examples), nullptr), options.batch, 3);
    if (!options.knows_global_batches) batches = std::make_unique<Unknowing>(std::move(batches));
    updater = std::make_unique<ParallelUpdater>(std::move(batches), *optimizer, std::move(workers),
                                                settings);
  }

  std::vector<std::unique_ptr<Classifier>> models;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<ParallelUpdater> updater;
};

// The same run without workers.
struct PlainRun {
  explicit PlainRun(const ParallelRun::Options& options = {})
      : model(options.make(5)), optimizer(options.optimizer()) {
    options.configure(*optimizer);
    optimizer->setup(*model);
    StandardUpdater::Settings settings;
    settings.seed = 3;
    updater = std::make_unique<StandardUpdater>(
        create_shuffled_iterator(share_of(synthetic(options.examples), nullptr), options.batch, 3),
        *optimizer, classification_loss(*model), settings);
  }

  std::unique_ptr<Classifier> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<StandardUpdater> updater;
};

struct Seen {
  std::vector<double> losses, accuracies;
};
inline Seen train(Updater& updater, int iterations) {
  Seen seen;
  for (int i = 0; i < iterations; ++i) {
    Observation observation;
    updater.update(observation);
    seen.losses.push_back(observation.mean("main/loss").value());
    seen.accuracies.push_back(observation.mean("main/accuracy").value());
  }
  return seen;
}

template <class Run>
std::vector<float> weights_after(Run& run, int iterations) {
  train(*run.updater, iterations);
  const Tensor& values = run.optimizer->arena().values();
  return {values.span<float>().begin(), values.span<float>().end()};
}

}  // namespace tasuki::testing
