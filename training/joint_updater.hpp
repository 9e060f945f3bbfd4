// JointUpdater: one iteration of training models with an optimizer each, such as the networks of a
// GAN (ChainerMN's DCGANUpdater).
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "training/batch_updater.hpp"

namespace tasuki {

// A LossFunction that returns a loss for each of several optimizers, in their order.
using LossesFunction =
    std::function<std::vector<Variable>(const Batch& batch, Observation& report)>;

// The models learn from losses of one forward pass, each from its own: gradients of a loss reach
// the parameters of its optimizer through those of others, which are constants there
// (Optimizer::backward leaves out parameters that another optimizer updates). The losses may share
// any part of the graph, which the last one's backward pass frees. Each optimizer exchanges its
// gradients after its own backward pass; then all update.
class JointUpdater : public BatchUpdater {
 public:
  // The optimizers are set up already, have the same communicator and outlive the updater. The keys
  // of observed losses have their names ("main/gen/loss"); "main/loss" is the sum.
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
