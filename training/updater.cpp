#include "tasuki/training/updater.hpp"

#include <utility>

#include "tasuki/core/error.hpp"
#include "tasuki/core/stopwatch.hpp"
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
  Stopwatch watch;
  const std::int64_t known_global_size = iterator_->next_global_size();
  const Batch batch = iterator_->next();
  times_.input += watch.lap();
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
  const double exchanged_before = optimizer_.exchange_seconds();
  optimizer_.update(step);
  const double exchange = optimizer_.exchange_seconds() - exchanged_before;
  times_.communication += exchange;
  times_.compute += watch.lap() - exchange;
  ++times_.steps;
  ++iteration_;
  if (step.examples == 0) return;
  observation.add(settings_.prefix + "loss", loss, static_cast<double>(step.examples),
                  step.examples);
  observation.add(reported, settings_.prefix);
}

std::int64_t StandardUpdater::ask_global_size(std::int64_t local) const {
  if (settings_.communicator == nullptr) return local;
  const Tensor sum = Tensor::from(std::span<const std::int64_t>(&local, 1), Shape{});
  settings_.communicator->allreduce(sum);
  return *sum.data<std::int64_t>();
}

void StandardUpdater::serialize(const Serializer& serializer) {
  const std::int64_t ranks = settings_.communicator ? settings_.communicator->size() : 1;
  serialize_position(serializer, {settings_.seed, ranks}, iteration_, *iterator_);
  serialize_model(serializer["model:main"], optimizer_.model());
  serialize_optimizer(serializer["optimizer:main"], optimizer_);
}

LossFunction classification_loss(Classifier& model) {
  return [&model](const Batch& batch, Observation& report) {
    const Device device = model.device();
    Classifier::Result result = model(Variable(batch.x.to(device)), batch.t.to(device));
    report.add("accuracy", result.correct, 1, result.examples);
    return result.loss;
  };
}

}  // namespace tasuki
