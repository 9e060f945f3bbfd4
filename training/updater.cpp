#include "tasuki/training/updater.hpp"

#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/training/state.hpp"

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
      settings_(std::move(settings)) {
  if (iterator_->steps_per_epoch() < 1)
    fail_everywhere(ErrorKind::data, "there are no examples to train on");
}

void StandardUpdater::update(Observation& observation) {
  const std::int64_t known_global_size = iterator_->next_global_size();
  const Batch batch = iterator_->next();
  Step step;
  step.examples = batch.size();
  step.global_examples = known_global_size >= 0 ? known_global_size : ask_global_size(batch.size());
  Observation reported;
  Tensor loss;
  step.loss = [&] {
    random_context() = {settings_.seed, batch.epoch, batch.ids, 0};
    Variable result = loss_(batch, reported);
    loss = result.value();
    return result;
  };
  optimizer_.update(step);
  ++iteration_;
  if (step.examples == 0) return;
  const double loss_sum = loss.item() * static_cast<double>(step.examples);
  observation.add(settings_.prefix + "loss", loss_sum, step.examples);
  for (const auto& [key, value] : reported.values())
    observation.add(settings_.prefix + key, value.sum, value.count, value.reach);
}

std::int64_t StandardUpdater::ask_global_size(std::int64_t local) const {
  if (settings_.communicator == nullptr) return local;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(&local, 1), Shape{});
  settings_.communicator->allreduce(sum);
  return *sum.data<std::int64_t>();
}

void StandardUpdater::serialize(const Serializer& serializer) {
  serialize_run(serializer);
  serialize_model(serializer["model:main"], optimizer_.model());
  serialize_optimizer(serializer["optimizer:main"], optimizer_);
}

// What must be the same in a run that goes on.
void StandardUpdater::serialize_run(const Serializer& serializer) {
  auto seed = static_cast<std::int64_t>(settings_.seed);
  serializer("seed", seed);
  if (static_cast<std::uint64_t>(seed) != settings_.seed)
    fail_everywhere(ErrorKind::config,
                    "the snapshot is of a run with seed {}, this one has seed {}: resume with the "
                    "same seed",
                    static_cast<std::uint64_t>(seed), settings_.seed);
  serializer("iteration", iteration_);

  const Serializer iterator = serializer["iterator:main"];
  IteratorState state = iterator_->state();
  iterator("epoch", state.epoch);
  iterator("step", state.step);
  serialize_layout(iterator, state.step);
  if (serializer.is_loading()) iterator_->restore(state);
}

// A step in the middle of an epoch is the same only in an epoch that is dealt alike: in another
// one, examples would be repeated or left out.
void StandardUpdater::serialize_layout(const Serializer& iterator, std::int64_t step) const {
  const EpochLayout layout = iterator_->layout();
  const std::pair<const char*, std::int64_t> numbers[] = {
      {"examples", layout.examples},
      {"ranks", settings_.communicator ? settings_.communicator->size() : 1},
      {"shards", layout.shards},
      {"global_batch", layout.global_batch},
      {"steps_per_epoch", iterator_->steps_per_epoch()},
  };
  std::string before, now;
  for (const auto& [name, here] : numbers) {
    std::int64_t stored = here;
    iterator(name, stored);
    if (stored == here) continue;
    before += fmt::format("{}{} {}", before.empty() ? "" : ", ", name, stored);
    now += fmt::format("{}{} {}", now.empty() ? "" : ", ", name, here);
  }
  if (step != 0 && !before.empty())
    fail_everywhere(ErrorKind::config,
                    "the snapshot is from step {} of an epoch with {}; this run has {}: resume "
                    "with what the snapshot has, or from the end of an epoch",
                    step, before, now);
}

LossFunction classification_loss(Classifier& model) {
  return [&model](const Batch& batch, Observation& report) {
    Classifier::Result result = model(Variable(batch.x), batch.t);
    report.add("accuracy", static_cast<double>(result.correct), result.examples);
    return result.loss;
  };
}

}  // namespace tasuki
