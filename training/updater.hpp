// Updater: what one iteration of training is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tasuki/communicator/communicator.hpp"
#include "tasuki/core/stopwatch.hpp"
#include "tasuki/dataset/iterators/iterator.hpp"
#include "tasuki/nn/classifier.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/training/observation.hpp"
#include "tasuki/training/recording/device_steps.hpp"
#include "tasuki/training/snapshots/serializer.hpp"
#include "tasuki/training/step_times.hpp"

namespace tasuki {

// A model's forward pass on a batch that is not empty: returns the mean loss over its examples and
// adds whatever else is worth knowing to `report` as sums over examples ("accuracy": number of
// correct ones, of how many). The caller adds "loss" and puts its prefix before the keys.
using LossFunction = std::function<Variable(const Batch& batch, Observation& report)>;

class Updater {
 public:
  virtual ~Updater() = default;
  // One iteration; adds what it saw to `observation` ("main/loss", ...). Collective.
  virtual void update(Observation& observation) = 0;

  // Iterations done, those before a resume included.
  virtual std::int64_t iteration() const = 0;
  // Position in the data: complete epochs and steps of the current one, as of the last update.
  virtual IteratorState state() const = 0;
  virtual std::int64_t steps_per_epoch() const = 0;
  std::int64_t epoch() const { return state().epoch; }
  double epoch_detail() const;
  bool is_new_epoch() const { return state().step == 0 && state().epoch > 0; }

  // Whether any batch of this rank had examples since the updater was made: without any, the
  // model's running statistics are still what they were at the start.
  virtual bool has_seen_examples() const { return true; }
  // What must be the same on all ranks besides the optimizer, a statement each ("seed 0"): the
  // trainer compares it before the first iteration.
  virtual std::vector<std::string> common_settings() const { return {}; }

  virtual Optimizer& optimizer() const = 0;
  // Where the time of this rank's updates went since the updater was made, on each device that it
  // computes on; nothing when it does not measure.
  virtual RankTimes times() const { return {}; }
  // Position, model and optimizer. Loading refuses what this updater cannot go on from.
  virtual void serialize(const Serializer& serializer) = 0;
};

// Next batch -> loss -> Optimizer::update. The gradient is the mean over the global batch: short or
// empty batches at an epoch's end weigh what they hold.
class StandardUpdater : public Updater {
 public:
  struct Settings {
    std::uint64_t seed = 0;                // of dropout and the like
    Communicator* communicator = nullptr;  // null: one process
    std::string prefix = "main/";          // of what is observed
    // Whether steps on a GPU are recorded and repeated. The loss function is then called for the
    // first steps only, and may not depend on anything that is not in the batch.
    GraphMode graph = GraphMode::off;
  };
  // `optimizer` is set up already and outlives the updater.
  StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer, LossFunction loss,
                  Settings settings);
  StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer, LossFunction loss)
      : StandardUpdater(std::move(iterator), optimizer, std::move(loss), Settings()) {}

  ~StandardUpdater() override;

  void update(Observation& observation) override;
  std::int64_t iteration() const override { return iteration_; }
  IteratorState state() const override { return iterator_->state(); }
  std::int64_t steps_per_epoch() const override { return iterator_->steps_per_epoch(); }
  bool has_seen_examples() const override { return has_seen_examples_; }
  std::vector<std::string> common_settings() const override;
  Optimizer& optimizer() const override { return optimizer_; }
  // Of a GPU: as it measured itself; waits for it.
  RankTimes times() const override;
  // How steps are done on the device.
  const RecordedSteps& recorded() { return steps_.recorded(); }
  void serialize(const Serializer& serializer) override;

 private:
  std::int64_t ask_global_size(std::int64_t local) const;
  // Those of arenas that are no more.
  void forget_old_recordings();
  void write_seeds(std::int64_t epoch);
  // On a GPU.
  void stamp(StepMoment moment) const;
  // The device's part of a step; what it observes.
  Observation perform(Step step, Batch& batch);

  std::unique_ptr<Iterator> iterator_;
  Optimizer& optimizer_;
  LossFunction loss_;
  Settings settings_;
  std::int64_t iteration_ = 0;
  bool has_seen_examples_ = false;
  StepTimes times_;
  Tensor clock_;  // of a GPU; else undefined, and times_ holds what the host measured
  Stopwatch since_update_;
  DeviceSteps steps_;
  StepBlock::Field seeds_;             // of random functions, by their number in a forward pass
  std::int64_t arenas_of_recordings_;  // Optimizer::arenas_made
};

// A classifier's loss and "accuracy"; batches are taken to the model's device. The model must
// outlive the function.
LossFunction classification_loss(Classifier& model);

}  // namespace tasuki
