#include "tasuki/training/extensions/evaluator.hpp"

#include <utility>

#include "tasuki/core/activity.hpp"
#include "tasuki/training/trainer.hpp"

namespace tasuki {

Evaluator::Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss)
    : iterator_(std::move(iterator)), loss_(std::move(loss)) {}

Evaluator::Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss, const Module& model,
                     const StepRunner::Settings& settings)
    : iterator_(std::move(iterator)),
      loss_(std::move(loss)),
      has_own_model_(true),
      runner_(std::make_unique<StepRunner>(model, settings)) {}

Evaluator::~Evaluator() = default;

Observation Evaluator::evaluate_share() {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  Observation seen;
  iterator_->restore({});
  const std::int64_t steps = iterator_->steps_per_epoch();
  for (std::int64_t step = 1; step <= steps; ++step) {
    report_progress();
    begin_batch(step, steps);
    const Batch batch = iterator_->next();
    if (batch.size() == 0) continue;
    const auto evaluate = [this](const Batch& there, Observation& found) {
      evaluate_batch(there, found);
    };
    if (runner_) {
      runner_->run(batch, seen, evaluate, "main/");
    } else {
      Observation found;
      evaluate(batch, found);
      seen.add(found, "main/");
    }
  }
  return seen;
}

void Evaluator::evaluate_batch(const Batch& batch, Observation& seen) {
  const Tensor loss = loss_(batch, seen).value();
  seen.add_mean("loss", loss, batch.size());
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
  if (!has_own_model_) follow(trainer.updater());
  Communicator* const communicator = communicator_ ? communicator_ : trainer.communicator();
  trainer.observation().add(evaluate(communicator), trainer.name_of(*this) + "/");
}

void Evaluator::follow(const Updater& updater) {
  const Module* const model = updater.evaluated_model();
  if (model == nullptr) return;
  const DType type = updater.optimizer().compute_type();
  if (runner_ && type == type_of_steps_) return;
  type_of_steps_ = type;
  runner_ = std::make_unique<StepRunner>(
      *model, StepRunner::Settings{.graph = updater.graph(), .activations = type});
}

std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> evaluator,
                                                       Communicator& communicator) {
  evaluator->communicator_ = &communicator;
  return evaluator;
}

}  // namespace tasuki
