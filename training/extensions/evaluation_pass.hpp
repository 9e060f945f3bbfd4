// EvaluationPass: one pass over the batches of an iterator, with layers in evaluation mode and
// without gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dataset/iterators/iterator.hpp"
#include "training/extension.hpp"
#include "training/observation.hpp"
#include "training/recording/step_runner.hpp"
#include "training/updater.hpp"

namespace tasuki {

class Optimizer;
class ShardThreads;

// Shared by all evaluators. `work` gets batches as the iterator returns them until a model is
// known, then on that model's device.
class EvaluationPass {
 public:
  explicit EvaluationPass(std::unique_ptr<Iterator> iterator);
  // For passes without a trainer.
  EvaluationPass(std::unique_ptr<Iterator> iterator, const Module& model, GraphMode graph);

  // Takes device and compute type from the updater, unless a model was given. `graph`: whether
  // steps are recorded.
  void follow(const Updater& updater, GraphMode graph);
  void watch(Extension::Watcher watcher) { watcher_ = std::move(watcher); }
  void begin_batch(std::int64_t batch, std::int64_t batches) const {
    if (watcher_) watcher_(batch, batches);
  }

  // Calls `work` for each batch of this rank that has examples; `number` counts all batches from 1.
  // If batches say which examples are of which shard, each shard's part is a batch by itself.
  // Returns the observed values, with `prefix`.
  using Work = std::function<void(std::int64_t number, const Batch& batch, Observation& seen)>;
  Observation run(const Work& work, const std::string& prefix) const;
  // The same for shards that several threads evaluate at once, each with its own model.
  using ThreadWork = std::function<void(std::size_t thread, const Batch& batch, Observation& seen)>;
  Observation run(const ShardThreads& threads, const ThreadWork& work,
                  const std::string& prefix) const;

 private:
  // Calls `each` for all batches, with their numbers.
  void for_batches(const std::function<void(std::int64_t number, const Batch& batch)>& each) const;
  void warn_of_unmarked_batches() const;
  void run_batch(std::int64_t number, const Batch& batch, const Work& work,
                 const std::string& prefix, Observation& seen) const;
  void run_on_device(std::int64_t number, const Batch& batch, const Work& work,
                     const std::string& prefix, Observation& seen) const;

  std::unique_ptr<Iterator> iterator_;
  Extension::Watcher watcher_;
  bool has_own_model_ = false;
  // Whether training is divided into shards, so that evaluations should be, too.
  bool expects_shards_ = false;
  mutable bool has_warned_ = false;
  std::unique_ptr<StepRunner> runner_;  // null until the model is known
  DType type_of_steps_ = DType::float32;
  Optimizer* divides_ = nullptr;  // of the model, if it divides weights among nodes
};

}  // namespace tasuki
