#include "training/extensions/evaluation_pass.hpp"

#include <utility>
#include <vector>

#include "core/activity.hpp"
#include "core/log.hpp"
#include "core/range.hpp"
#include "tensor/late_values.hpp"
#include "training/workers/shard_threads.hpp"

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
  divides_ = updater.optimizer().divides_weights() ? &updater.optimizer() : nullptr;
  const DType type = updater.optimizer().compute_type();
  if (runner_ && type == type_of_steps_) return;
  type_of_steps_ = type;
  runner_ = std::make_unique<StepRunner>(*model,
                                         StepRunner::Settings{.graph = graph, .activations = type});
}

void EvaluationPass::run_batch(std::int64_t number, const Batch& batch, const Work& work,
                               const std::string& prefix, Observation& seen) const {
  // Ranks without examples gather weights with the others.
  if (divides_ != nullptr)
    return divides_->evaluating([&] { run_on_device(number, batch, work, prefix, seen); });
  run_on_device(number, batch, work, prefix, seen);
}

void EvaluationPass::run_on_device(std::int64_t number, const Batch& batch, const Work& work,
                                   const std::string& prefix, Observation& seen) const {
  if (batch.size() == 0) return;
  const auto step = [&](const Batch& there, Observation& found) { work(number, there, found); };
  if (runner_) return runner_->run(batch, seen, step, prefix);
  Observation found;
  step(batch, found);
  seen.add(found, prefix);
}

void EvaluationPass::for_batches(
    const std::function<void(std::int64_t number, const Batch& batch)>& each) const {
  iterator_->restore({});
  const std::int64_t batches = iterator_->steps_per_epoch();
  for (std::int64_t number = 1; number <= batches; ++number) {
    report_progress();
    begin_batch(number, batches);
    each(number, iterator_->next());
  }
}

void EvaluationPass::warn_of_unmarked_batches() const {
  if (expects_shards_ && !std::exchange(has_warned_, true))
    log_warning(
        "--reproducible: an evaluator's batches do not say which examples are of which shard "
        "(ShareIteratorOptions::marks_shards), so its values depend on the ranks");
}

Observation EvaluationPass::run(const Work& work, const std::string& prefix) const {
  const NoGrad no_grad;
  const TrainingMode evaluation(false);
  Observation seen;
  for_batches([&](std::int64_t number, const Batch& batch) {
    if (batch.shards().empty()) {
      warn_of_unmarked_batches();
      return run_batch(number, batch, work, prefix, seen);
    }
    for (std::size_t i = 0; i < batch.shards().size(); ++i)
      run_batch(number, batch.shard(i), work, prefix, seen);
  });
  return seen;
}

Observation EvaluationPass::run(const ShardThreads& threads, const ThreadWork& work,
                                const std::string& prefix) const {
  threads.follow_model();
  Observation seen;
  for_batches([&](std::int64_t number, const Batch& batch) {
    if (batch.shards().empty()) {
      const NoGrad no_grad;
      const TrainingMode evaluation(false);
      warn_of_unmarked_batches();
      return run_batch(
          number, batch,
          [&](std::int64_t, const Batch& there, Observation& seen_there) {
            work(0, there, seen_there);
          },
          prefix, seen);
    }
    std::vector<Observation> found(threads.size());
    threads.run([&](std::size_t thread) {
      const NoGrad no_grad;
      const TrainingMode evaluation(false);
      const Range own =
          part_of(std::ssize(batch.shards()), std::ssize(found), static_cast<std::int64_t>(thread));
      for (std::int64_t i = own.begin; i < own.end; ++i) {
        const Batch shard = batch.shard(static_cast<std::size_t>(i));
        if (shard.size() == 0) continue;
        StepScope step;
        work(thread, runner_ ? runner_->on_cpu(shard) : shard, found[thread]);
        step.succeeded();
      }
    });
    for (const Observation& each : found) seen.add(each, prefix);
  });
  return seen;
}

}  // namespace tasuki
