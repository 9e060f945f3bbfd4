#include "small_run.hpp"

#include <algorithm>
#include <utility>

#include "dataset/iterators/device_iterator.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/synthetic.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/sequential.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/extensions/observe.hpp"
#include "training/extensions/shift.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki::testing {

std::shared_ptr<const Dataset> synthetic(std::int64_t count, std::uint64_t split) {
  SyntheticOptions options;
  options.count = count;
  options.example_shape = Shape{12};
  options.classes = 4;
  options.split = split;
  return std::make_shared<SyntheticDataset>(options);
}

Share share_of(std::shared_ptr<const Dataset> dataset, Communicator* communicator, int shards) {
  return take_share(std::move(dataset), communicator ? communicator->size() : 1,
                    communicator ? communicator->rank() : 0, {.shards = shards});
}

std::unique_ptr<Classifier> small_model(std::int64_t units, std::uint64_t seed, bool lazy) {
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

SmallRun::SmallRun(const std::filesystem::path& out, Communicator* communicator, Options options)
    : model(small_model(options.units, 5, options.lazy)),
      optimizer(create_optimizer(options.optimizer)) {
  Communicator* exchanging = communicator;
  if (options.local) {
    const int groups = std::min(options.groups, communicator->size());
    local_steps = std::make_unique<LocalSteps>(
        *communicator, *options.local, communicator->rank() * groups / communicator->size());
    exchanging = &local_steps->group();
  }
  if (exchanging) optimizer = create_multi_node_optimizer(std::move(optimizer), *exchanging);
  model->to(options.device);
  optimizer->compute_in(options.dtype);
  if (!options.frozen.empty()) optimizer->freeze(options.frozen);
  optimizer->states().shard(options.sharded);
  optimizer->weights().share(options.shares,
                             communicator ? communicator->rank() % options.sockets : 0);
  optimizer->set_exchange({.mode = options.exchange, .power_sgd_rank = options.power_sgd_rank});
  optimizer->setup(*model);
  if (options.dtype == DType::float16) optimizer->guard().scale_losses({});
  if (options.skips_non_finite) optimizer->guard().skip_non_finite();
  if (local_steps) local_steps->follow({optimizer.get()});
  StandardUpdater::Settings settings;
  settings.seed = options.seed;
  settings.graph = options.graph;
  settings.accumulate = options.accumulate;
  settings.local_steps = local_steps.get();
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

std::unique_ptr<Iterator> SmallRun::on_device(std::unique_ptr<ShareIterator> iterator,
                                              const Options& options) {
  if (options.device.is_cpu()) return iterator;
  if (options.is_resident) return create_resident_iterator(std::move(iterator), options.device);
  return std::make_unique<PrefetchIterator>(std::move(iterator));
}

}  // namespace tasuki::testing
