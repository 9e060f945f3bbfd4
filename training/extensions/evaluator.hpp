// Evaluator: loss and accuracy on data that is not trained on.
#pragma once

#include <memory>
#include <string>

#include "tasuki/dataset/iterators/iterator.hpp"
#include "tasuki/training/extension.hpp"
#include "tasuki/training/extensions/watched_pass.hpp"
#include "tasuki/training/recording/device_steps.hpp"
#include "tasuki/training/updater.hpp"

namespace tasuki {

// Runs the loss function over one epoch of an iterator with layers in evaluation mode and nothing
// recorded, and observes "validation/main/loss", "validation/main/accuracy", ... as exact sums and
// counts over examples. Each epoch by default. What it observes is this rank's part; see
// create_multi_node_evaluator.
class Evaluator : public Extension, public WatchedPass {
 public:
  // `iterator` gives one epoch of this rank's share (create_serial_iterator) and is set back to its
  // start before each pass. On a GPU nothing waits during a pass; batches may be recorded and
  // repeated, of a loss function as in StandardUpdater::Settings.
  Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss, Device device = Device::cpu(),
            GraphMode graph = GraphMode::off);

  std::string default_name() const override { return "validation"; }
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  void run(Trainer& trainer) override;

  // The whole pass by itself: keys "main/loss", "main/accuracy", ...
  Observation evaluate();

 protected:
  // One pass over this rank's share. Override it for other metrics, and call begin_batch.
  virtual Observation evaluate_share();

 private:
  Observation evaluate_batch(Batch& batch);

  friend std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator>,
                                                                Communicator&);

  std::unique_ptr<Iterator> iterator_;
  LossFunction loss_;
  DeviceSteps steps_;
  std::int64_t arenas_of_recordings_ = 0;  // Optimizer::arenas_made
  Communicator* communicator_ = nullptr;
};

// Makes an evaluator's values those of all ranks: sums and counts are added up (a number of correct
// examples is an integer, so that accuracy is equal for any number of ranks), ranks without
// examples take part, and every rank ends with the same keys and values. evaluate() becomes
// collective. The communicator must outlive the evaluator.
std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> evaluator,
                                                       Communicator& communicator);

}  // namespace tasuki
