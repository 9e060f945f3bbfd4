// StandardUpdater: one iteration of training a model with one optimizer. BatchUpdater takes the
// batches and keeps the run's position; for several optimizers there is a JointUpdater.
#pragma once

#include <memory>

#include "nn/classifier.hpp"
#include "training/batch_updater.hpp"

namespace tasuki {

// Next batch -> forward -> backward -> exchange -> update. The gradient is the mean over the global
// batch: short or empty batches at the end of an epoch are weighted by their size, or by the number
// of their targets that count (Batch::weight).
class StandardUpdater : public BatchUpdater {
 public:
  // `optimizer` must be set up already and must outlive the updater.
  StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer, LossFunction loss,
                  Settings settings);
  StandardUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer, LossFunction loss)
      : StandardUpdater(std::move(iterator), optimizer, std::move(loss), Settings()) {}
  ~StandardUpdater() override { drop_recordings(); }

  void update(Observation& observation) override;

 private:
  Variable forward(const Batch& batch, RandomKeys& random, Observation& seen);

  LossFunction loss_;
};

// A loss function that returns the classifier's loss and reports its "accuracy". It moves batches
// to the model's device. The model must outlive it.
LossFunction classification_loss(Classifier& model);

}  // namespace tasuki
