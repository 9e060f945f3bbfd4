// Updater: one iteration of training.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "dataset/iterators/iterator.hpp"
#include "optimizer/optimizer.hpp"
#include "saving/state.hpp"
#include "training/observation.hpp"
#include "training/recording/step_runner.hpp"
#include "training/step_times.hpp"

namespace tasuki {

// A model's forward pass on a batch of at least one example. Returns the mean loss over the
// examples of the batch. If the data set marks targets to be ignored (Field::ignored_label), it is
// the mean over the other targets. The function may add other metrics to `report` as a sum and a
// count ("accuracy": the number of correct examples and the number of examples). The caller adds
// "loss" and prefixes the keys. The function may be called more than once for a step, and is not
// called when a recorded step is replayed on a GPU. Its result may therefore depend only on the
// batch and the model, and it must have no side effects other than those on `report`. If it reads
// results on the host, it must call refuse_recording() (tensor/late_values.hpp); if it reads the
// batch's ids, epoch or global size, its steps are not recorded.
using LossFunction = std::function<Variable(const Batch& batch, Observation& report)>;

class Updater {
 public:
  virtual ~Updater() = default;
  // Runs one iteration and adds its observed values to `observation` ("main/loss", ...).
  // Collective.
  virtual void update(Observation& observation) = 0;

  // Iterations done, including those before a resume.
  virtual std::int64_t iteration() const = 0;
  // Position in the data after the last update: complete epochs, and steps of the current one.
  virtual IteratorState state() const = 0;
  virtual std::int64_t steps_per_epoch() const = 0;
  std::int64_t epoch() const { return state().epoch; }
  // Complete epochs plus the finished fraction of the current one.
  double epoch_detail() const {
    const IteratorState now = state();
    return static_cast<double>(now.epoch) +
           static_cast<double>(now.step) / static_cast<double>(steps_per_epoch());
  }
  // The position in the data as a number of steps, as if every epoch had steps_per_epoch() steps.
  // Equals iteration() unless the run was resumed with another batch size or number of examples.
  std::int64_t steps_to_here() const { return state().epoch * steps_per_epoch() + state().step; }
  bool is_new_epoch() const { return state().step == 0 && state().epoch > 0; }

  // Numbers in the data set of the first few examples that this rank read in the last iteration,
  // for messages; empty if the updater does not know them.
  virtual std::span<const std::int64_t> last_examples() const { return {}; }

  // Brings the model up to date if an update is outstanding (Optimizer::flush). The trainer calls
  // it before extensions that read the model, before it saves, and at the end. Collective.
  virtual void flush() {
    for (const NamedOptimizer& each : optimizers()) each.optimizer->flush();
  }
  // Whether any rank has been asked to stop, the same on all ranks, if the updater knows it;
  // nothing: the ranks exchange messages about it after each iteration.
  virtual std::optional<bool> asked_to_stop() const { return {}; }
  // Whether ranks that exchange no gradients keep optimizer states of their own (LocalSteps).
  virtual bool has_states_by_group() const { return false; }
  // Whether any batch of this rank had examples since the updater was made; if not, the model's
  // running statistics are still the initial ones.
  virtual bool has_seen_examples() const { return true; }
  // Settings other than the optimizer's that must be the same on all ranks, one statement each
  // ("seed 0"): the trainer compares them before the first iteration.
  virtual std::vector<std::string> common_settings() const { return {}; }

  // The first optimizer, or the only one.
  virtual Optimizer& optimizer() const = 0;
  // All optimizers. Schedules set the hyper-parameters of each.
  virtual NamedOptimizers optimizers() const { return {{"main", &optimizer()}}; }
  // The ranks that train together; null: one process. Trainers and evaluators use this
  // communicator.
  virtual Communicator* communicator() const { return optimizer().communicator(); }
  // Ranks that hold the same weights as this one: all, unless a model is on several ranks.
  virtual Communicator* replicas() const { return communicator(); }
  // Evaluators bring batches to this model's device and record their steps as the updater does.
  // Null: loss functions get batches as iterators give them.
  virtual const Module* evaluated_model() const { return &optimizer().model(); }
  virtual GraphMode graph() const { return GraphMode::off; }
  // From now on updates are timed, where that takes a device's time and is not always done.
  virtual void measure_times() {}
  // How each device of this rank has spent the time of the updates that were timed; empty if the
  // updater does not measure it.
  virtual RankTimes times() const { return {}; }
  // Saves or loads position, models and optimizers. Loading refuses a state from which this updater
  // cannot continue.
  virtual void serialize(const Serializer& serializer) = 0;
};

}  // namespace tasuki
