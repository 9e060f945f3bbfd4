#include "tasuki/training/extensions/evaluator.hpp"

#include <utility>

#include "tasuki/training/trainer.hpp"

namespace tasuki {

Evaluator::Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss)
    : iterator_(std::move(iterator)), loss_(std::move(loss)) {}

Observation Evaluator::evaluate_share() {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  Observation seen;
  iterator_->restore({});
  for (std::int64_t step = iterator_->steps_per_epoch(); step > 0; --step) {
    const Batch batch = iterator_->next();
    if (batch.size() == 0) continue;
    Observation reported;
    const Tensor loss = loss_(batch, reported).value();
    seen.add("main/loss", loss, static_cast<double>(batch.size()), batch.size());
    seen.add(reported, "main/");
  }
  return seen;
}

Observation Evaluator::evaluate() {
  const Observation share = evaluate_share();
  return communicator_ ? share.over_ranks(communicator_) : share;
}

void Evaluator::run(Trainer& trainer) {
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
