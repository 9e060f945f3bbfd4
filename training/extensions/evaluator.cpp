#include "training/extensions/evaluator.hpp"

#include <typeinfo>
#include <utility>

#include "core/activity.hpp"
#include "training/extensions/evaluation_pass.hpp"
#include "training/named_examples.hpp"
#include "training/trainer.hpp"
#include "training/workers/shard_threads.hpp"

namespace tasuki {
namespace {

void add_loss(const LossFunction& loss, const Batch& batch, Observation& seen) {
  const Tensor mean = loss(batch, seen).value();
  if (batch.weight() > 0) seen.add_mean("loss", mean, batch.weight());
}

}  // namespace

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
  // Classes with an evaluate_batch() of their own know one model.
  const auto* const threaded = loss_.target<ThreadedLoss>();
  if (threaded != nullptr && typeid(*this) == typeid(Evaluator))
    return pass_->run(
        threaded->threads(),
        [&](std::size_t thread, const Batch& batch, Observation& seen) {
          naming_examples(batch, [&] { add_loss(threaded->of(thread), batch, seen); });
        },
        "main/");
  return pass_->run(
      [this](std::int64_t, const Batch& batch, Observation& seen) {
        naming_examples(batch, [&] { evaluate_batch(batch, seen); });
      },
      "main/");
}

void Evaluator::evaluate_batch(const Batch& batch, Observation& seen) {
  add_loss(loss_, batch, seen);
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
