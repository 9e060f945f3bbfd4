// Evaluator: loss and accuracy on data that are not used for training.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "dataset/iterators/iterator.hpp"
#include "training/extension.hpp"
#include "training/updater.hpp"

namespace tasuki {

class EvaluationPass;

// Runs a loss function over one epoch of an iterator, with layers in evaluation mode and without
// gradients, and observes "validation/main/loss", "validation/main/accuracy", ... as exact sums and
// counts over examples. "validation" is the name under which it is attached; the keys of a second
// evaluator begin with "validation_1/" unless it is given another name. By default it runs once per
// epoch.
//
// In a trainer it brings batches to the updater's device, in the model's compute type, and records
// steps if the updater does; its values cover all ranks.
class Evaluator : public Extension {
 public:
  // `iterator` gives one epoch of this rank's share (create_serial_iterator) and is reset before
  // each pass. During a pass the host does not wait for a GPU.
  Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss);
  // For passes without a trainer, on the model's device and in float32; `graph`: whether steps are
  // recorded on a GPU. The model must outlive the evaluator.
  Evaluator(std::unique_ptr<Iterator> iterator, LossFunction loss, const Module& model,
            GraphMode graph = GraphMode::off);
  ~Evaluator() override;

  std::string default_name() const override { return "validation"; }
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool reads_model() const override { return true; }
  void run(Trainer& trainer) override;
  void watch(const Watcher& watcher) override;
  bool may_observe(const std::string& key, const std::string& name, bool has_run) const override {
    return !has_run && key.starts_with(name + "/");
  }

  // One whole pass: keys "main/loss", "main/accuracy", ... The values cover this rank's share, or
  // all ranks if create_multi_node_evaluator() made the evaluator. Without a model, the loss
  // function gets batches as the iterator returns them.
  Observation evaluate();

 protected:
  // Evaluates one non-empty batch, on the loss function's device, and adds the results to `seen`;
  // by default the loss and the values that the loss function reports. Override it for other
  // metrics.
  virtual void evaluate_batch(const Batch& batch, Observation& seen);
  // One pass over this rank's share; must reset the iterator, and call begin_batch() before each
  // batch. Override it if a rank can compute its sum and count only from its whole share. For
  // metrics that need the examples of all ranks, use GenericEvaluator.
  virtual Observation evaluate_share();
  // Reports progress to the display (Extension::watch).
  void begin_batch(std::int64_t batch, std::int64_t batches) const;

 private:
  friend std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator>,
                                                                Communicator&);
  Observation evaluate(Communicator* communicator);

  std::unique_ptr<EvaluationPass> pass_;
  LossFunction loss_;
  Communicator* communicator_ = nullptr;
};

// Makes evaluate() return the values of all ranks, also without a trainer: sums and counts are
// added up (correct examples are counted in integers, so accuracy is the same for any number of
// ranks), ranks without examples take part, and every rank gets the same keys and values.
// evaluate() becomes collective. The communicator must outlive the evaluator.
std::unique_ptr<Evaluator> create_multi_node_evaluator(std::unique_ptr<Evaluator> evaluator,
                                                       Communicator& communicator);

}  // namespace tasuki
