// BatchUpdater: the base of updaters that train on one device. It takes the batches of an iteration
// from an iterator, runs a step on each, and keeps the run's position.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/range.hpp"
#include "dataset/iterators/iterator.hpp"
#include "nn/random.hpp"
#include "optimizer/local_steps.hpp"
#include "saving/state.hpp"
#include "tensor/late_values.hpp"
#include "training/observation.hpp"
#include "training/recording/step_runner.hpp"
#include "training/training_model.hpp"
#include "training/updater.hpp"

namespace tasuki {

class ShardThreads;

// Random keys for each batch of an iteration, made when they are first needed.
class RandomKeysOfBatches {
 public:
  explicit RandomKeysOfBatches(std::uint64_t seed) : seed_(seed) {}
  RandomKeys& of(std::int64_t batch);
  // Of a batch that of() was called for, or a later one's number.
  RandomKeys& at(std::int64_t batch) const { return *keys_.at(static_cast<std::size_t>(batch)); }

 private:
  std::uint64_t seed_;
  std::vector<std::unique_ptr<RandomKeys>> keys_;
};

// The batches of one iteration. Their gradients are added up, exchanged once and used in one
// update.
class AccumulatedBatches {
 public:
  // The next `most` batches, at least 1, or as many as are left in the epoch. With `most` above 1,
  // they are in one StepScope, which lives as long as this object. `shards`: of this rank, if the
  // optimizer divides steps (Optimizer::set_shards). Each shard's part of a batch is then a batch
  // by itself, and those of one shard follow one another. `is_of_group`: only some of the ranks
  // that share the batches exchange gradients with this one.
  AccumulatedBatches(StepRunner& runner, Iterator& iterator, RandomKeysOfBatches& keys,
                     std::int64_t most, std::optional<Range> shards = {}, bool is_of_group = false);

  // Reads all batches.
  void read_all();
  // With shards, after read_all(): the number of batches that next() returns, batch `i` of them,
  // its keys, and the shard that begins with it. Several threads may call these at once.
  std::int64_t parts() const { return std::ssize(whole_) * shards_->size(); }
  Batch part(std::int64_t i) const;
  RandomKeys& random_of(std::int64_t i) const { return keys_.at(i); }
  std::optional<std::int64_t> begins_shard(std::int64_t i) const;
  Range parts_of(Range shards) const;

  // The next batch. Call it before the first batch's work, and again until is_last().
  Batch next();
  // These describe the batch that next() returned last.
  bool is_last() const { return is_last_; }
  RandomKeys& random() { return keys_.of(taken_ - 1); }
  // The shard that begins with this batch.
  std::optional<std::int64_t> begins_shard() const {
    return shards_ ? begins_shard(taken_ - 1) : std::nullopt;
  }

  // The weight of all batches so far on all ranks that exchange gradients (Batch::weight); empty if
  // the weight of one of them is unknown.
  std::optional<std::int64_t> global_weight() const {
    return is_weighted_ || is_of_group_ ? std::nullopt : global_examples_;
  }
  bool have_examples() const { return have_examples_; }  // of this rank
  // The weight of all batches read so far on this rank.
  std::int64_t weight() const { return weight_; }

  // Call it after the last batch's work.
  void succeeded();

 private:
  Batch read();

  StepRunner& runner_;
  Iterator& iterator_;
  RandomKeysOfBatches& keys_;
  std::int64_t most_, read_ = 0, taken_ = 0;
  bool all_read_ = false, is_last_ = false, have_examples_ = false, is_weighted_ = false;
  bool is_of_group_;
  std::optional<std::int64_t> global_examples_ = 0;
  std::optional<StepScope> all_;  // empty: the runner opens the scope of a single batch
  std::optional<Range> shards_;
  std::int64_t weight_ = 0;
  std::vector<Batch> whole_;  // the batches whose shards are taken
};

// With Settings::accumulate k, an iteration takes k batches, or as many as are left in the epoch.
// Its update equals the update of one batch with all their examples, except that batch
// normalisation uses the statistics of each batch.
class BatchUpdater : public Updater {
 public:
  ~BatchUpdater() override;
  struct Settings {
    // Seed of dropout and other random functions; the same on all ranks.
    std::uint64_t seed = 0;
    // Precedes the keys of all observed values.
    std::string prefix = "main/";
    // Whether steps on a GPU are captured as CUDA graphs and replayed.
    GraphMode graph = GraphMode::off;
    // The number of batches in an iteration, at least 1. With more than 1, steps on a GPU are not
    // captured.
    std::int64_t accumulate = 1;
    // For a model whose parts are on several ranks: all ranks that train together, not only the
    // ranks that exchange gradients with this one (Optimizer::communicator). Null: these are the
    // same.
    Communicator* all_ranks = nullptr;
    // For optimizers that train with LocalSteps::group(), which follows them already: the updater
    // ends steps and synchronises. It must outlive the updater.
    LocalSteps* local_steps = nullptr;
    // False: the loss is on another rank, and the loss function returns a delegate variable
    // (parallel/functions/messages.hpp), which is not observed.
    bool has_loss = true;
    // The model that evaluators call; null: the first optimizer's.
    const Module* evaluated_model = nullptr;
    // If the optimizers divide steps into shards: how many threads compute whole shards, each but
    // the first with a copy of the model. Without `create_copy`, one does.
    std::size_t shard_threads = 1;
    std::function<TrainingModel()> create_copy = {};
  };

  std::int64_t iteration() const override { return position_.iteration; }
  IteratorState state() const override {
    return {position_.data.epoch, iterations_of(position_.data.step)};
  }
  std::int64_t steps_per_epoch() const override {
    return iterations_of(iterator_->steps_per_epoch());
  }
  bool has_seen_examples() const override { return has_seen_examples_; }
  std::span<const std::int64_t> last_examples() const override { return last_examples_; }
  std::vector<std::string> common_settings() const override;
  Optimizer& optimizer() const override { return *optimizers_.front().optimizer; }
  NamedOptimizers optimizers() const override { return optimizers_; }
  Communicator* replicas() const override { return optimizer().communicator(); }
  Communicator* communicator() const override {
    if (settings_.local_steps) return &settings_.local_steps->all();
    return settings_.all_ranks ? settings_.all_ranks : optimizer().communicator();
  }
  // Also synchronises.
  void flush() override;
  std::optional<bool> asked_to_stop() const override;
  bool has_states_by_group() const override {
    return settings_.local_steps && settings_.local_steps->groups() > 1;
  }
  const Module* evaluated_model() const override {
    return settings_.evaluated_model ? settings_.evaluated_model : &optimizer().model();
  }
  GraphMode graph() const override { return settings_.graph; }
  // A GPU's times are measured by its own clock, from measure_times() on; times() waits for it.
  void measure_times() override { runner_.measure_times(); }
  RankTimes times() const override;
  // For an Evaluator: `loss`, or what evaluates shards in as many threads as train. The updater
  // must outlive it.
  LossFunction evaluation_loss(LossFunction loss) const;
  // The object that runs the steps on the device.
  const StepRunner& runner() const { return runner_; }
  void serialize(const Serializer& serializer) override;

 protected:
  BatchUpdater(std::unique_ptr<Iterator> iterator, NamedOptimizers optimizers, Settings settings);

  // An iteration: take next_batches(), run a step on each, finish(). begin_shard() comes before
  // each step.
  AccumulatedBatches next_batches();
  // Begins the shard of the batch in all optimizers, if the batch is a shard's first.
  void begin_shard(const AccumulatedBatches& batches) const;
  // Runs `step` with the batch on the device (StepRunner::run). `batch` was returned by the last
  // batches.next().
  void run_on_device(const Batch& batch, const AccumulatedBatches& batches,
                     Observation& observation, const StepRunner::Work& step);
  // Whether several threads compute the shards of this step. Then run_shards() is the step.
  bool has_threads() const { return threads_ != nullptr; }
  // All passes of a step, its exchange and update. `pass`: forward and backward pass of all
  // optimizers' models for a batch, with these random numbers.
  using Pass = std::function<void(const Batch& batch, RandomKeys& random, Observation& seen)>;
  void run_shards(AccumulatedBatches& batches, Observation& observation, const Pass& pass);
  void finish(AccumulatedBatches& batches);
  // Called in destructors of updaters: objects that a loss function owns, such as a communicator,
  // must outlive the recordings that use them.
  void drop_recordings() { runner_.forget(); }
  // Observes the losses of a batch, one for each optimizer: their sum as "loss" and, if there are
  // several, each under its optimizer's name.
  void report_losses(const std::vector<Variable>& losses, const Batch& batch,
                     Observation& seen) const;

 private:
  TransferTimes transfer_times() const;
  void start_threads();
  void note_examples(const Batch& batch);
  void run_thread(std::size_t thread, const AccumulatedBatches& batches, const Pass& pass,
                  Observation& seen) const;
  std::int64_t iterations_of(std::int64_t batches) const {
    return (batches + settings_.accumulate - 1) / settings_.accumulate;
  }

  std::unique_ptr<Iterator> iterator_;
  NamedOptimizers optimizers_;
  Settings settings_;
  RandomKeysOfBatches random_;
  StepRunner runner_;
  std::unique_ptr<ShardThreads> threads_;  // null: one computes
  RunPosition position_;                   // after the last iteration; the iterator may be further
  bool has_seen_examples_ = false;
  std::vector<std::int64_t> last_examples_;
  // When this updater was made.
  TransferTimes transfer_before_;
  double synchronised_before_;  // LocalSteps::seconds
};

}  // namespace tasuki
