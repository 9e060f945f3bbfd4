// Updater: one iteration of training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "dataset/iterators/iterator.hpp"
#include "nn/classifier.hpp"
#include "optimizer/optimizer.hpp"
#include "training/accumulated_batches.hpp"
#include "training/observation.hpp"
#include "training/recording/step_runner.hpp"
#include "training/snapshots/state.hpp"
#include "training/step_times.hpp"

namespace tasuki {

// A model's forward pass on a batch of at least one example. Returns the mean loss over the batch,
// which is a mean over its targets that count where the data set tells them apart
// (Field::ignored_label), and may add other metrics to `report` as a sum and a count ("accuracy":
// the number of correct examples and the number of examples). The caller adds "loss" and prefixes
// the keys. The function may be called more than once for a step, and is not called when a recorded
// step is replayed on a GPU. Its result may therefore depend only on the batch and the model, and
// it must have no side effects other than those on `report`. If it reads results on the host, it
// must call refuse_recording() (tensor/late.hpp); if it reads the batch's ids, epoch or global
// size, its steps are not recorded.
using LossFunction = std::function<Variable(const Batch& batch, Observation& report)>;

// The same with a loss for each of several optimizers, in their order.
using LossesFunction =
    std::function<std::vector<Variable>(const Batch& batch, Observation& report)>;

class Updater {
 public:
  virtual ~Updater() = default;
  // One iteration; adds what it saw to `observation` ("main/loss", ...). Collective.
  virtual void update(Observation& observation) = 0;

  // Iterations done, those before a resume included.
  virtual std::int64_t iteration() const = 0;
  // Position in the data after the last update: complete epochs, and steps of the current one.
  virtual IteratorState state() const = 0;
  virtual std::int64_t steps_per_epoch() const = 0;
  std::int64_t epoch() const { return state().epoch; }
  double epoch_detail() const;
  // The position in the data as a number of steps, as if every epoch had steps_per_epoch() steps.
  // Equals iteration() unless the run was resumed with another batch size or number of examples.
  std::int64_t steps_to_here() const { return state().epoch * steps_per_epoch() + state().step; }
  bool is_new_epoch() const { return state().step == 0 && state().epoch > 0; }

  // Numbers in the data set of the first few examples that this rank read in the last iteration,
  // for messages; empty if the updater does not know them.
  virtual std::span<const std::int64_t> last_examples() const { return {}; }

  // Brings the model up to date if an update is outstanding (Optimizer::flush). The trainer calls
  // it before extensions that read the model, before it saves, and at the end. Collective.
  virtual void flush();
  // Whether any batch of this rank had examples since the updater was made; if not, the model's
  // running statistics are still the initial ones.
  virtual bool has_seen_examples() const { return true; }
  // Settings other than the optimizer's that must be the same on all ranks, one statement each
  // ("seed 0"): the trainer compares them before the first iteration.
  virtual std::vector<std::string> common_settings() const { return {}; }

  // The first optimizer, or the only one.
  virtual Optimizer& optimizer() const = 0;
  // All of them. Schedules set the hyper-parameters of each.
  virtual NamedOptimizers optimizers() const { return {{"main", &optimizer()}}; }
  // The ranks that train together; null: one process. Trainers and evaluators take it from here.
  virtual Communicator* communicator() const { return optimizer().communicator(); }
  // Those of them with the same weights as this one: all, unless a model is on several ranks.
  virtual Communicator* replicas() const { return communicator(); }
  // Evaluators bring batches to this model's device and record their steps as the updater does.
  // Null: loss functions get batches as iterators give them.
  virtual const Module* evaluated_model() const { return &optimizer().model(); }
  virtual GraphMode graph() const { return GraphMode::off; }
  // How each device of this rank has spent the time of its updates since the updater was made;
  // empty if the updater does not measure it.
  virtual RankTimes times() const { return {}; }
  // Position, model and optimizer. Loading refuses a state that this updater cannot continue from.
  virtual void serialize(const Serializer& serializer) = 0;
};

// Next batch -> forward -> backward -> exchange -> update. The gradient is the mean over the global
// batch: short or empty batches at an epoch's end are weighted by their size, or by their number of
// targets that count (Batch::weight).
//
// With Settings::accumulate k, an iteration takes k batches, or those that are left in the epoch.
// Their gradients are added up, exchanged once and used in one update, which equals that of one
// batch with all their examples, except that batch normalisation uses the statistics of each batch.
//
// Models with an optimizer each, such as the networks of a GAN (ChainerMN's DCGANUpdater), learn
// from losses of one forward pass, each from its own: gradients of a loss reach the parameters of
// its optimizer through those of others, which are constants there (Optimizer::backward leaves out
// parameters that another optimizer updates); the losses may share any part of the graph, which the
// last one's backward pass frees. Each optimizer exchanges its
// gradients after its own backward pass; then all update.
class StandardUpdater : public Updater {
 public:
  struct Settings {
    // Seed of dropout and other random functions; the same on all ranks.
    std::uint64_t seed = 0;
    // Precedes the keys of all observed values.
    std::string prefix = "main/";
    // Whether steps of a model on a GPU are recorded.
    GraphMode graph = GraphMode::off;
    // The number of batches in an iteration, at least 1. With more than 1, steps on a GPU are not
    // recorded.
    std::int64_t accumulate = 1;
    // For a model whose parts are on several ranks: all ranks that train together, which are more
    // than those that exchange gradients with this one (Optimizer::communicator). Null: they are
    // the same.
    Communicator* all_ranks = nullptr;
    // False: the loss function returns a delegate variable (parallel/functions/messages.hpp), as
    // the loss is on another rank; it is not observed.
    bool has_loss = true;
    // The model that evaluators call, if not the first optimizer's.
    const Module* evaluated_model = nullptr;
  };
  // `optimizer` is set up already and outlives the updater.
  StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer, LossFunction loss,
                  Settings settings);
  StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer, LossFunction loss)
      : StandardUpdater(std::move(iterator), optimizer, std::move(loss), Settings()) {}
  // Several optimizers, with the same communicator. The keys of observed losses have their names
  // ("main/gen/loss"); "main/loss" is the sum.
  StandardUpdater(std::unique_ptr<Iterator> iterator, NamedOptimizers optimizers,
                  LossesFunction losses, Settings settings);

  void update(Observation& observation) override;
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
    return settings_.all_ranks ? settings_.all_ranks : optimizer().communicator();
  }
  const Module* evaluated_model() const override {
    return settings_.evaluated_model ? settings_.evaluated_model : &optimizer().model();
  }
  GraphMode graph() const override { return settings_.graph; }
  // A GPU's times are measured by its own clock; this call waits for the GPU.
  RankTimes times() const override;
  // The object that runs the steps on the device.
  const StepRunner& runner() const { return runner_; }
  void serialize(const Serializer& serializer) override;

 private:
  // Forward and backward pass of a batch; after the last one of an iteration, exchange and update.
  void train_on(const Batch& batch, AccumulatedBatches& batches, Observation& seen);
  std::vector<Variable> forward(const Batch& batch, RandomKeys& random, Observation& seen);
  std::vector<Variable> losses_of(const Batch& batch, RandomKeys& random, Observation& seen);
  TransferTimes transfer_times() const;
  std::int64_t iterations_of(std::int64_t batches) const {
    return (batches + settings_.accumulate - 1) / settings_.accumulate;
  }

  std::unique_ptr<Iterator> iterator_;
  NamedOptimizers optimizers_;
  LossesFunction losses_;
  Settings settings_;
  RandomKeysOfBatches random_;
  StepRunner runner_;     // on a CPU: iterator.next(), and the step itself
  RunPosition position_;  // after the last step that was done; the iterator's
  bool has_seen_examples_ = false;
  std::vector<std::int64_t> last_examples_;
  Optimizer::TransferTimes transfer_before_;
};

// A classifier's loss and "accuracy"; moves batches to the model's device. The model must outlive
// the function.
LossFunction classification_loss(Classifier& model);

}  // namespace tasuki
