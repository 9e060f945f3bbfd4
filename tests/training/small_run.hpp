// A small but complete training run: every kind of state that a snapshot must keep.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/forwarding_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "dataset/synthetic.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/observe.hpp"
#include "training/extensions/shift.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/standard_updater.hpp"
#include "training/trainer.hpp"

namespace tasuki::testing {

inline std::shared_ptr<const Dataset> synthetic(std::int64_t count, std::uint64_t split = 0) {
  SyntheticOptions options;
  options.count = count;
  options.example_shape = Shape{12};
  options.classes = 4;
  options.split = split;
  return std::make_shared<SyntheticDataset>(options);
}

// This rank's share; all of it without a communicator.
inline Share share_of(std::shared_ptr<const Dataset> dataset, Communicator* communicator,
                      int shards = 0) {
  return take_share(std::move(dataset), communicator ? communicator->size() : 1,
                    communicator ? communicator->rank() : 0, {.shards = shards});
}

// Dropout draws random numbers, batch normalisation keeps averages of each rank's own. `lazy`:
// fully connected layers learn the number of their inputs in the first forward pass.
inline std::unique_ptr<Classifier> small_model(std::int64_t units = 8, std::uint64_t seed = 5,
                                               bool lazy = false) {
  const auto inputs = [lazy](std::int64_t n) { return lazy ? std::nullopt : std::optional(n); };
  auto net = std::make_unique<Sequential>();
  net->append("l1", std::make_unique<Linear>(inputs(12), units));
  net->append("bn", std::make_unique<BatchNorm>(units)).append(functions::relu);
  net->append([](const Variable& x) { return functions::dropout(x, 0.3F); });
  net->append("l2", std::make_unique<Linear>(inputs(units), 4));
  auto model = std::make_unique<Classifier>(std::move(net));
  model->initialize(seed);
  return model;
}

// Hides how large global batches are, as a program's own iterator may.
struct Unknowing : ForwardingIterator {
  using ForwardingIterator::ForwardingIterator;
  Batch next() override {
    Batch batch = inner().next();
    batch.set_global_size({});
    return batch;
  }
};

struct SmallRun {
  struct Options {
    std::string optimizer = "adam";
    std::int64_t examples = 97, batch = 7;
    double epochs = 3;
    std::optional<std::int64_t> iterations = std::nullopt;
    std::uint64_t seed = 3;
    std::int64_t units = 8;
    bool lazy = false;
    int shards = 0;  // 0: one per rank
    Device device = Device::cpu();
    DType dtype = DType::float32;  // what the model computes in
    GraphMode graph = GraphMode::off;
    bool is_resident = true;  // on another device than a CPU
    std::string frozen = "";  // a pattern; from before the setup
    bool sharded = false;     // the optimizer's states
    bool shares = false;      // weights, among the ranks of a node
    std::int64_t accumulate = 1;
    std::optional<ExchangeMode> exchange = std::nullopt;
    std::int64_t power_sgd_rank = 0;
    bool skips_non_finite = false;
  };

  SmallRun(const std::filesystem::path& out, Communicator* communicator, Options options)
      : model(small_model(options.units, 5, options.lazy)),
        optimizer(create_optimizer(options.optimizer)) {
    if (communicator) optimizer = create_multi_node_optimizer(std::move(optimizer), *communicator);
    model->to(options.device);
    optimizer->compute_in(options.dtype);
    if (!options.frozen.empty()) optimizer->freeze(options.frozen);
    optimizer->states().shard(options.sharded);
    optimizer->weights().share(options.shares);
    optimizer->set_exchange({.mode = options.exchange, .power_sgd_rank = options.power_sgd_rank});
    optimizer->setup(*model);
    if (options.dtype == DType::float16) optimizer->guard().scale_losses({});
    if (options.skips_non_finite) optimizer->guard().skip_non_finite();
    StandardUpdater::Settings settings;
    settings.seed = options.seed;
    settings.graph = options.graph;
    settings.accumulate = options.accumulate;
    trainer = std::make_unique<Trainer>(
        std::make_unique<StandardUpdater>(
            on_device(create_shuffled_iterator(
                          share_of(synthetic(options.examples), communicator, options.shards),
                          options.batch, options.seed),
                      options),
            *optimizer, classification_loss(*model), settings),
        stop_after(options.epochs, options.iterations), out);
    auto evaluator = std::make_unique<Evaluator>(
        on_device(create_serial_iterator(share_of(synthetic(41, 1), communicator), options.batch),
                  options),
        classification_loss(*model));
    trainer->extend(std::move(evaluator));
    trainer->extend(observe_lr());
    trainer->extend(exponential_shift(optimizer->rule().rate_name(), 0.9));
    log = &trainer->extend(std::make_unique<LogReport>());
    trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{
                        .filename = "most_accurate", .n_retains = 0, .at_end = false}),
                    {.trigger = on_max_value("validation/main/accuracy")});
  }

  static std::unique_ptr<Iterator> on_device(std::unique_ptr<ShareIterator> iterator,
                                             const Options& options) {
    if (options.device.is_cpu()) return iterator;
    if (options.is_resident) return create_resident_iterator(std::move(iterator), options.device);
    return std::make_unique<PrefetchIterator>(std::move(iterator));
  }

  std::unique_ptr<Classifier> model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;
  LogReport* log = nullptr;
};

}  // namespace tasuki::testing
