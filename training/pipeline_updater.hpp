// PipelineUpdater: one iteration of training a model whose batches are divided into micro-batches.
#pragma once

#include <memory>

#include "training/batch_updater.hpp"
#include "training/micro_batches.hpp"

namespace tasuki {

// A StandardUpdater for TrainingModel::micro_batches. The gradient and the observed values are
// those of the whole batch except for rounding, dropout included; but batch normalisation uses the
// statistics of each micro-batch. Gradients are exchanged after the last backward pass, or,
// with Sharding::gradients, in each.
class PipelineUpdater : public BatchUpdater {
 public:
  // `optimizer` must be set up already and must outlive the updater. `loss` is called for each
  // micro-batch, also for those without examples.
  PipelineUpdater(std::unique_ptr<Iterator> iterator, Optimizer& optimizer, LossFunction loss,
                  MicroBatches micro_batches, const Settings& settings);
  ~PipelineUpdater() override { drop_recordings(); }

  void update(Observation& observation) override;

 private:
  void run_passes(const Batch& batch, Observation& seen);

  LossFunction loss_;
  MicroBatches micro_batches_;
  RandomKeysOfBatches random_;  // of micro-batches, several of which are in flight
};

}  // namespace tasuki
