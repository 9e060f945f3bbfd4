#include "tasuki/training/extensions/evaluator.hpp"

#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {

Evaluator::Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss, Device device,
                     GraphMode graph)
    : iterator_(std::move(iterator)), loss_(std::move(loss)), steps_(device, graph) {
  steps_.join(*iterator_);
}

Observation Evaluator::evaluate_share() {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  Observation seen;
  iterator_->restore({});
  const std::int64_t steps = iterator_->steps_per_epoch();
  for (std::int64_t step = 1; step <= steps; ++step) {
    report_progress();
    begin_batch(step, steps);
    Batch batch = iterator_->announce();
    if (batch.size() == 0) continue;
    seen.add(steps_.run({batch.size(), batch.size()}, [&] { return evaluate_batch(batch); }),
             "main/");
  }
  return seen;
}

Observation Evaluator::evaluate_batch(Batch& batch) {
  iterator_->fill(batch);
  Observation seen;
  const Tensor loss = loss_(batch, seen).value();
  seen.add("loss", loss, static_cast<double>(batch.size()), batch.size());
  return seen;
}

Observation Evaluator::evaluate() {
  const PhaseScope evaluating(Phase::evaluating);
  const Observation share = evaluate_share();
  return communicator_ ? share.over_ranks(communicator_) : share;
}

void Evaluator::run(Trainer& trainer) {
  // Recordings read the parameters where they were.
  const std::int64_t arenas = trainer.updater().optimizer().arenas_made();
  if (std::exchange(arenas_of_recordings_, arenas) != arenas) steps_.recorded().forget();
  const std::string prefix = trainer.name_of(*this) + "/";
  const Observation found = evaluate();
  for (const auto& [key, value] : found.values())
    trainer.observation().add(prefix + key, value.sum, value.count, value.reach);
}

std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> evaluator,
                                                       Communicator& communicator) {
  evaluator->communicator_ = &communicator;
  return evaluator;
}

}  // namespace tasuki
