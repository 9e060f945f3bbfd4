// JointUpdater: one iteration of training several models, each with its own optimizer, such as the
// networks of a GAN (ChainerMN's DCGANUpdater).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "training/batch_updater.hpp"

namespace tasuki {

// One forward pass computes all losses, and each model learns from its own loss. A loss may depend
// on the parameters of other optimizers, which are constants in its backward pass
// (Optimizer::backward leaves out parameters that another optimizer updates). The losses may share
// any part of the graph, which the last backward pass frees. Each optimizer exchanges its gradients
// during or after its own backward pass; then all update.
class JointUpdater : public BatchUpdater {
 public:
  // The optimizers must be set up already, have the same communicator and outlive the updater.
  // Losses are observed under the optimizers' names ("main/gen/loss"), and their sum as
  // "main/loss".
  JointUpdater(std::unique_ptr<Iterator> iterator, NamedOptimizers optimizers,
               LossesFunction losses, Settings settings);
  ~JointUpdater() override { drop_recordings(); }

  void update(Observation& observation) override;

 private:
  std::vector<Variable> forward(const Batch& batch, RandomKeys& random, Observation& seen);
  std::vector<Variable> losses_of(const Batch& batch, RandomKeys& random, Observation& seen);

  LossesFunction losses_;
};

}  // namespace tasuki
