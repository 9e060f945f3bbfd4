// ShardThreads: threads of a rank that each compute whole shards of a step, with a copy of the
// model for each but the first (Optimizer::set_copies).
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "training/training_model.hpp"
#include "training/updater.hpp"
#include "training/workers/worker_threads.hpp"

namespace tasuki {

class ShardThreads {
 public:
  // The optimizers divide steps into shards, at least as many on this rank as there are threads,
  // and outlive this object, as does `whole`, the model that they train. `create_copy` makes
  // another one; modules of it that no optimizer has take the values of the whole model's. Each
  // thread computes with one thread of its own. The calling thread is the first one.
  ShardThreads(NamedOptimizers optimizers, const Module& whole,
               const std::function<TrainingModel()>& create_copy, std::size_t threads);
  ~ShardThreads();
  ShardThreads(const ShardThreads&) = delete;
  ShardThreads& operator=(const ShardThreads&) = delete;

  std::size_t size() const { return threads_.size(); }
  // The losses of a further thread's copy, one for each optimizer.
  const LossesFunction& losses_of(std::size_t thread) const { return losses_.at(thread - 1); }
  // The loss function of a further thread's copy.
  const LossFunction& loss_of(std::size_t thread) const { return copies_.at(thread - 1).loss; }

  // Calls work(thread) in all threads at once, each in a StepScope, whose requests become the
  // calling thread's. If one throws, all optimizers drop the step when all have ended.
  void run_step(const std::function<void(std::size_t thread)>& work);
  // Calls it outside of steps.
  void run(const std::function<void(std::size_t thread)>& work) const { threads_.run(work); }
  // Before the copies compute outside of steps: they take the model's buffers, and parameters that
  // no optimizer has, and read its weights.
  void follow_model() const;

 private:
  NamedOptimizers optimizers_;
  const Module& whole_;
  std::vector<TrainingModel> copies_;
  std::vector<LossesFunction> losses_;  // of the copies
  mutable WorkerThreads threads_;
};

// The loss function of a model, with which an Evaluator can evaluate shards in several threads at
// once. The threads must outlive it.
class ThreadedLoss {
 public:
  ThreadedLoss(LossFunction first, const ShardThreads& threads)
      : first_(std::move(first)), threads_(&threads) {}

  Variable operator()(const Batch& batch, Observation& report) const {
    return first_(batch, report);
  }
  const LossFunction& of(std::size_t thread) const {
    return thread == 0 ? first_ : threads_->loss_of(thread);
  }
  const ShardThreads& threads() const { return *threads_; }

 private:
  LossFunction first_;
  const ShardThreads* threads_;
};

}  // namespace tasuki
