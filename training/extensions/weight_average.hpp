// WeightAverage: an exponential moving average of the weights, which often generalises better than
// the last ones (Polyak and Juditsky, 1992).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "optimizer/optimizer.hpp"
#include "saving/replica_set.hpp"
#include "saving/state.hpp"
#include "training/extension.hpp"
#include "training/observation.hpp"

namespace tasuki {

// After each iteration, average = decay * average + (1 - decay) * weights, as in PyTorch's
// torch.optim.swa_utils; the weights after the first iteration begin it. It is one operation on the
// whole arena of each optimizer, on the weights' device, and takes the memory of one more copy of
// them on each rank. All ranks compute the same average from the same weights, without messages.
//
// Frozen parameters and buffers, such as running statistics, have no average: wherever the average
// is used, they are the model's own. A parameter that is added or unfrozen later begins with the
// weights that it has then.
//
// At the end of each epoch, the evaluators are run once more with the averages in place of the
// weights; their values get "ema/" before their keys: "ema/validation/main/loss". The average is a
// part of checkpoints and snapshots. At the end of a run, also of one that is stopped, it is
// written to the trainer's folder with the model's buffers, as the model file ema.npz; of several
// optimizers, with the names that their models have in snapshots ("updater/model:gen/l1/W").
class WeightAverage : public Extension {
 public:
  struct Settings {
    double decay = 0.999;  // from 0 to below 1
    // By the names under which they are attached; those that are not attached are left out.
    std::vector<std::string> evaluators = {"validation"};
    // Of a model on several ranks: each set of replicas writes a file, with its suffix. Null: rank
    // 0 writes one.
    std::shared_ptr<const ReplicaSet> replicas = nullptr;
  };
  // The optimizers have models already, and outlive this extension (Updater::optimizers()).
  WeightAverage(const NamedOptimizers& optimizers, Settings settings);

  std::string default_name() const override { return "WeightAverage"; }
  // After evaluators, before what reads their values.
  int priority() const override { return priority_editor + 50; }
  bool may_observe(const std::string& key, const std::string& name, bool has_run) const override;
  void run(Trainer& trainer) override;
  void finalize(Trainer& trainer) override;
  void serialize(const Serializer& serializer) override;

  // Calls `work` while the models have the averages, and gives the weights back even if it throws.
  // On all ranks alike, between updates.
  void with_averages(const std::function<void()>& work) const;

 private:
  struct Average;

  // Makes the array, or follows a change of the arena, where entries are known by their paths.
  static void arrange(Average& average);
  void evaluate(Trainer& trainer) const;
  // The arrays of the file.
  void append_entries(const Average& average, std::vector<NpzEntry>& entries) const;

  Settings settings_;
  std::vector<std::shared_ptr<Average>> averages_;  // one for each optimizer
};

}  // namespace tasuki
