// ParallelUpdater: one process that trains on several devices (Chainer's ParallelUpdater).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "nn/random.hpp"
#include "training/updater.hpp"
#include "training/workers/batch_split.hpp"

namespace tasuki {

class DeviceClock;
class Replicas;
class WorkerThreads;

// Next batch -> a part of it for each worker -> loss and gradients, all workers at once ->
// gradients summed on the first worker's device -> Optimizer::update -> the same weights for all.
//
// The gradient is the mean over the examples of the batch, however it is split: a run differs from
// one with a single worker only by the rounding of sums. Random numbers are functions of (seed,
// epoch, example), so that dropout does not depend on the split either. Batch normalisation does
// depend on it: it uses the statistics of each worker's part, and the first worker's running
// statistics are used in evaluation and saved (as in Chainer).
//
// An exception in a worker leaves update() when all workers have ended their part; it names the
// worker.
class ParallelUpdater : public Updater {
 public:
  struct Worker {
    Module& model;      // identical models, each on its worker's device; must outlive the updater
    LossFunction loss;  // of that model
    int threads = 1;    // that the worker computes with, on a CPU
  };
  // On CPUs, workers share weights unless these are copied, as they are to other devices.
  enum class Weights : std::uint8_t { as_devices_need, copied };
  struct Settings {
    // Seed of dropout and other random functions; the same on all ranks.
    std::uint64_t seed = 0;
    // Precedes the keys of all observed values.
    std::string prefix = "main/";
    BatchSplit split = BatchSplit::even(1);
    Weights weights = Weights::as_devices_need;
    DType activations = DType::float32;  // of batches on GPUs, and so of the results computed there
  };
  // `optimizer` must be set up already with the first worker's model and must outlive the updater.
  // update() and the function of evaluation_loss() are called by one thread, which is the first
  // worker.
  ParallelUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer,
                  std::vector<Worker> workers, Settings settings);
  ~ParallelUpdater() override;

  void update(Observation& observation) override;
  std::int64_t iteration() const override { return position_.iteration; }
  IteratorState state() const override { return position_.data; }
  std::int64_t steps_per_epoch() const override { return iterator_->steps_per_epoch(); }
  Optimizer& optimizer() const override { return optimizer_; }
  // Workers take their parts of a batch from the host.
  const Module* evaluated_model() const override { return nullptr; }
  // The times of each worker, by its device's clock; of GPUs from measure_times() on. Communication
  // is summing the workers' gradients and distributing the weights, including the wait for slower
  // workers.
  void measure_times() override;
  RankTimes times() const override;
  void serialize(const Serializer& serializer) override;

  // For an Evaluator: divides a batch among the workers, in evaluation mode and with the first
  // worker's running statistics. The updater must outlive the function.
  LossFunction evaluation_loss();

  const BatchSplit& split() const { return settings_.split; }

 private:
  struct Outcome;
  // The next batch, timed as input on all devices.
  Batch read();
  // Calls `work` in every worker with its part, which may be empty.
  using Work = std::function<void(std::size_t worker, const Batch& part)>;
  void run_parts(const Batch& batch, const std::vector<std::int64_t>& parts, const Work& work);
  void note(std::size_t worker, StepClock::Moment moment) const;
  Outcome compute_gradients(std::size_t worker, const Batch& part);
  void sum_gradients();
  Variable evaluate(const Batch& batch, Observation& report);
  void serialize_split(const Serializer& serializer);
  void follow_times(const std::vector<std::int64_t>& parts, const std::vector<Outcome>& outcomes);

  std::unique_ptr<Iterator> iterator_;
  Optimizer& optimizer_;
  Settings settings_;
  std::vector<LossFunction> losses_;
  std::vector<std::unique_ptr<RandomKeys>> random_;  // of the workers
  std::unique_ptr<Replicas> replicas_;
  std::unique_ptr<WorkerThreads> threads_;
  RunPosition position_;             // after the last step that was done
  std::vector<DeviceClock> clocks_;  // of the workers; none: nothing is measured
};

}  // namespace tasuki
