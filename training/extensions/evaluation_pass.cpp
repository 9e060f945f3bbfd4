#include "training/extensions/evaluation_pass.hpp"

#include <utility>

#include "core/activity.hpp"
#include "core/log.hpp"

namespace tasuki {

EvaluationPass::EvaluationPass(std::unique_ptr<Iterator> iterator)
    : iterator_(std::move(iterator)) {}

EvaluationPass::EvaluationPass(std::unique_ptr<Iterator> iterator, const Module& model,
                               GraphMode graph)
    : iterator_(std::move(iterator)),
      has_own_model_(true),
      runner_(std::make_unique<StepRunner>(model, StepRunner::Settings{.graph = graph})) {}

void EvaluationPass::follow(const Updater& updater, GraphMode graph) {
  const Module* const model = updater.evaluated_model();
  expects_shards_ = updater.optimizer().shards() > 0;
  if (has_own_model_ || model == nullptr) return;
  const DType type = updater.optimizer().compute_type();
  if (runner_ && type == type_of_steps_) return;
  type_of_steps_ = type;
  runner_ = std::make_unique<StepRunner>(*model,
                                         StepRunner::Settings{.graph = graph, .activations = type});
}

void EvaluationPass::run_batch(std::int64_t number, const Batch& batch, const Work& work,
                               const std::string& prefix, Observation& seen) const {
  if (batch.size() == 0) return;
  const auto step = [&](const Batch& there, Observation& found) { work(number, there, found); };
  if (runner_) return runner_->run(batch, seen, step, prefix);
  Observation found;
  step(batch, found);
  seen.add(found, prefix);
}

Observation EvaluationPass::run(const Work& work, const std::string& prefix) const {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  Observation seen;
  iterator_->restore({});
  const std::int64_t batches = iterator_->steps_per_epoch();
  for (std::int64_t number = 1; number <= batches; ++number) {
    report_progress();
    begin_batch(number, batches);
    const Batch batch = iterator_->next();
    if (batch.shards().empty()) {
      if (expects_shards_ && !std::exchange(has_warned_, true))
        log_warning(
            "--reproducible: an evaluator's batches do not say which examples are of which shard "
            "(ShareIteratorOptions::marks_shards), so its values depend on the ranks");
      run_batch(number, batch, work, prefix, seen);
    } else {
      for (std::size_t i = 0; i < batch.shards().size(); ++i)
        run_batch(number, batch.shard(i), work, prefix, seen);
    }
  }
  return seen;
}

}  // namespace tasuki
