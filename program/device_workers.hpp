// Workers: several devices in one process (--devices, --split).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "program/start/rank_setup.hpp"
#include "program/training_program.hpp"

namespace tasuki::program {

// Trains one model on several devices of this process, with a copy of it on each but the first.
// Its steps on zeros may change the model.
class Workers {
 public:
  // `model` is on the first device, with `optimizer` set up for it; `create_copy` makes another
  // one. All arguments outlive this object.
  Workers(const TrainingProgram& program, const RankSetup& setup,
          std::function<TrainingModel()> create_copy, TrainingModel& model, Optimizer& optimizer);
  ~Workers();
  // The previous updater must have been destroyed.
  std::unique_ptr<Updater> create_updater(std::unique_ptr<Iterator> batches);
  // The loss for an evaluator; belongs to the last updater, which must still exist.
  LossFunction evaluation_loss() const { return evaluation_loss_; }
  // A step on n examples of zeros like these (zero_batch), to measure its memory.
  void step_on_zeros(std::int64_t n, const DatasetHeader& examples);

 private:
  class ZeroBatches;

  const TrainingProgram& program_;
  const RankSetup& setup_;
  std::function<TrainingModel()> create_copy_;
  TrainingModel& model_;
  Optimizer& optimizer_;
  std::vector<TrainingModel> copies_;
  LossFunction evaluation_loss_;
  std::unique_ptr<Updater> trial_;
  ZeroBatches* trial_batches_ = nullptr;  // the trial's
};

}  // namespace tasuki::program
