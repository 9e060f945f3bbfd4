#include "training/extensions/evaluator.hpp"

#include <utility>

#include "core/activity.hpp"
#include "training/extensions/evaluation_pass.hpp"
#include "training/named_examples.hpp"
#include "training/trainer.hpp"

namespace tasuki {

Evaluator::Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss)
    : pass_(std::make_unique<EvaluationPass>(std::move(iterator))), loss_(std::move(loss)) {}

Evaluator::Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss, const Module& model,
                     GraphMode graph)
    : pass_(std::make_unique<EvaluationPass>(std::move(iterator), model, graph)),
      loss_(std::move(loss)) {}

Evaluator::~Evaluator() = default;

void Evaluator::watch(const Watcher& watcher) {
  pass_->watch(watcher);
}

void Evaluator::begin_batch(std::int64_t batch, std::int64_t batches) const {
  pass_->begin_batch(batch, batches);
}

Observation Evaluator::evaluate_share() {
  return pass_->run(
      [this](std::int64_t, const Batch& batch, Observation& seen) {
        naming_examples(batch, [&] { evaluate_batch(batch, seen); });
      },
      "main/");
}

void Evaluator::evaluate_batch(const Batch& batch, Observation& seen) {
  const Tensor loss = loss_(batch, seen).value();
  if (batch.weight() > 0) seen.add_mean("loss", loss, batch.weight());
}

Observation Evaluator::evaluate() {
  return evaluate(communicator_);
}

Observation Evaluator::evaluate(Communicator* communicator) {
  const PhaseScope evaluating(Phase::evaluating);
  const Observation share = evaluate_share();
  return communicator ? share.over_ranks(communicator) : share;
}

void Evaluator::run(Trainer& trainer) {
  pass_->follow(trainer.updater(), trainer.updater().graph());
  Communicator* const communicator = communicator_ ? communicator_ : trainer.communicator();
  trainer.observation().add(evaluate(communicator), trainer.name_of(*this) + "/");
}

std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> evaluator,
                                                       Communicator& communicator) {
  evaluator->communicator_ = &communicator;
  return evaluator;
}

}  // namespace tasuki
