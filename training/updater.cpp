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
      position_{0, iterator_->state()} {
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
}

std::vector<std::string> StandardUpdater::common_settings() const {
  const EpochLayout layout = iterator_->layout();
  return {
      fmt::format("a global batch of {}", layout.global_batch),
      fmt::format("seed {}", settings_.seed),
      layout.is_shuffled ? fmt::format("data shuffled with seed {}", layout.seed) : "data in order",
      fmt::format("data of {} examples", layout.examples),
      fmt::format("data in {} shards", layout.shards)};
}

void StandardUpdater::update(Observation& observation) {
  const Batch next = runner_.read(*iterator_);
  random_.follow(next.epoch(), next.ids());
  const auto step = [this, global_examples = next.global_size()](const Batch& batch,
                                                                 Observation& seen) {
    const Variable loss = optimizer_.forward([&] { return loss_of(batch, seen); }, batch.size());
    optimizer_.update(optimizer_.backward_and_exchange(loss, batch.size(), global_examples));
  };
  runner_.run(next, observation, step, settings_.prefix);
  position_ = {position_.iteration + 1, iterator_->state()};
  has_seen_examples_ = has_seen_examples_ || next.size() > 0;
}

Variable StandardUpdater::loss_of(const Batch& batch, Observation& seen) {
  const RandomScope random(random_);
  seen.clear();  // from a pass that is now repeated
  Variable loss = loss_(batch, seen);
  if (batch.size() > 0) seen.add_mean("loss", loss.value(), batch.size());
  return loss;
}

void StandardUpdater::serialize(const Serializer& serializer) {
  const std::int64_t ranks = communicator() ? communicator()->size() : 1;
  serialize_position(serializer, {settings_.seed, ranks}, position_, *iterator_);
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
