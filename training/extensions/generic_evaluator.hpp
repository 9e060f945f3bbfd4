// GenericEvaluator: metrics that are not sums over examples (BLEU, a ranking, an area under a
// curve), after ChainerMN's GenericMultiNodeEvaluator.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator/bytes.hpp"
#include "communicator/communicator.hpp"
#include "dataset/iterators/iterator.hpp"
#include "nn/module.hpp"
#include "training/extension.hpp"
#include "training/observation.hpp"

namespace tasuki {

class EvaluationPass;

// Every rank applies a function to each batch of its share, with layers in evaluation mode and
// without a graph; the root collects all results and computes values, which are observed on all
// ranks ("validation/<key>"). Runs each epoch by default.
//
// In a trainer it brings batches to the updater's device, in the model's compute type, like
// Evaluator. Steps are not recorded, because results are made on the host.
class GenericEvaluator : public Extension {
 public:
  // Computes a rank's result for one of its non-empty batches: any object as bytes
  // (communicator/text_bytes.hpp for texts). Without a trainer or a model the function gets batches
  // as the iterator returns them.
  using Local = std::function<Bytes(const Batch& batch)>;
  // Called only on the root: `results` of all batches in the order of rounds, that is, the first
  // batches of ranks 0, 1, 2, ..., then the second ones; ranks without examples in a round are left
  // out. If batches say which examples are of which shard (Batch::set_shards), each shard's part of
  // a batch is a batch by itself; results are then the same for any number of ranks. Values that it
  // adds to `found` count for the whole job.
  using Aggregate = std::function<void(const std::vector<Bytes>& results, Observation& found)>;

  // `iterator` gives one epoch of this rank's share (create_serial_iterator) and is reset before
  // each pass. The communicator must outlive the evaluator; null: the trainer's, or one process
  // without a trainer.
  GenericEvaluator(std::unique_ptr<Iterator> iterator, Local local, Aggregate aggregate,
                   Communicator* communicator = nullptr, int root = 0);
  // For passes without a trainer, on the model's device. The model must outlive the evaluator.
  GenericEvaluator(std::unique_ptr<Iterator> iterator, Local local, Aggregate aggregate,
                   const Module& model, Communicator* communicator = nullptr, int root = 0);
  ~GenericEvaluator() override;

  std::string default_name() const override { return "validation"; }
  int priority() const override { return priority_writer; }
  std::unique_ptr<Trigger> default_trigger() const override { return every(1, Unit::epoch); }
  bool reads_model() const override { return true; }
  void run(Trainer& trainer) override;
  void watch(const Watcher& watcher) override;
  bool may_observe(const std::string& key, const std::string& name, bool has_run) const override {
    return !has_run && key.starts_with(name + "/");
  }

  // One pass without a trainer: the results in the order of rounds on the root, nothing on other
  // ranks. Collective.
  std::vector<Bytes> gather_results();
  // One pass with its values, the same on all ranks. Collective; an exception of the root's
  // function is thrown on all ranks.
  Observation evaluate();

 private:
  bool is_root() const { return communicator_ == nullptr || communicator_->rank() == root_; }
  GenericEvaluator(std::unique_ptr<EvaluationPass> pass, Local local, Aggregate aggregate,
                   Communicator* communicator, int root);
  // The results with their rounds, as one message.
  Bytes results_of_share();

  std::unique_ptr<EvaluationPass> pass_;
  Local local_;
  Aggregate aggregate_;
  Communicator* communicator_;
  int root_;
};

}  // namespace tasuki
