#include "tasuki/training/updater.hpp"

#include <utility>

#include "tasuki/core/error.hpp"

namespace tasuki {

double Updater::epoch_detail() const {
  const IteratorState now = state();
  return static_cast<double>(now.epoch) +
         static_cast<double>(now.step) / static_cast<double>(steps_per_epoch());
}

StandardUpdater::StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                                 LossFunction loss, Settings settings)
    : iterator_(std::move(iterator)),
      optimizer_(optimizer),
      loss_(std::move(loss)),
      settings_(std::move(settings)),
      random_(settings_.seed),
      runner_({&optimizer}, {.graph = settings_.graph}),
      position_{0, iterator_->state()},
      transfer_before_(optimizer.transfer_times()) {
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
  TASUKI_CHECK(settings_.accumulate >= 1, "an iteration of {} batches", settings_.accumulate);
  if (settings_.accumulate > 1 && settings_.graph == GraphMode::on && !runner_.device().is_cpu())
    fail_everywhere(ErrorKind::usage,
                    "--accumulate and --graph on: iterations of several batches are not recorded "
                    "as graphs; leave one out");
}

std::vector<std::string> StandardUpdater::common_settings() const {
  const EpochLayout layout = iterator_->layout();
  return {
      fmt::format("a global batch of {}", layout.global_batch),
      fmt::format("{} batch(es) in an iteration", settings_.accumulate),
      fmt::format("seed {}", settings_.seed),
      layout.is_shuffled ? fmt::format("data shuffled with seed {}", layout.seed) : "data in order",
      fmt::format("data of {} examples", layout.examples),
      fmt::format("data in {} shards", layout.shards),
      fmt::format("buckets of {} steps", layout.bucket_steps)};
}

void StandardUpdater::update(Observation& observation) {
  AccumulatedBatches batches(runner_, *iterator_, random_, settings_.accumulate);
  while (!batches.is_last()) {
    const Batch next = batches.next();
    const auto step = [&](const Batch& batch, Observation& seen) {
      const std::int64_t weight = batch.weight();
      const Variable loss =
          optimizer_.forward([&] { return loss_of(batch, batches.random(), seen); }, weight);
      if (!batches.is_last()) return optimizer_.backward(loss, weight);
      optimizer_.update(optimizer_.backward_and_exchange(loss, weight, batches.global_weight()));
    };
    runner_.run(next, observation, step, settings_.prefix, batches.is_last());
  }
  batches.succeeded();
  position_ = {position_.iteration + 1, iterator_->state()};
  has_seen_examples_ = has_seen_examples_ || batches.have_examples();
}

Variable StandardUpdater::loss_of(const Batch& batch, RandomKeys& random, Observation& seen) {
  const RandomScope scope(random);
  seen.clear();  // from a pass that is now repeated
  Variable loss = loss_(batch, seen);
  if (batch.weight() > 0 && settings_.has_loss) seen.add_mean("loss", loss.value(), batch.weight());
  return loss;
}

RankTimes StandardUpdater::times() const {
  StepTimes times = runner_.times();
  const Optimizer::TransferTimes& now = optimizer_.transfer_times();
  times.transfer = now.transfer - transfer_before_.transfer;
  times.exposed = now.exposed - transfer_before_.exposed;
  return {times};
}

void StandardUpdater::serialize(const Serializer& serializer) {
  const Communicator* const dealt_to = optimizer_.communicator();
  const std::int64_t ranks = dealt_to ? dealt_to->size() : 1;
  serialize_position(serializer, {settings_.seed, ranks, settings_.accumulate}, position_,
                     *iterator_);
  load_shapes(serializer["model:main"], optimizer_);
  serialize_model(serializer["model:main"], optimizer_.model());
  serialize_optimizer(serializer["optimizer:main"], optimizer_);
}

LossFunction classification_loss(Classifier& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    Classifier::Result result = model(Variable(batch["x"].to(device)), batch["t"].to(device));
    report.add_sum("accuracy", result.correct, result.counted);
    return result.loss;
  };
}

}  // namespace tasuki
