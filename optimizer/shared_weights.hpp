// SharedWeights: whether the ranks of a node have a model's weights once, and who reads which set.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"
#include "optimizer/hook.hpp"
#include "optimizer/trained_model.hpp"

namespace tasuki {

// Each rank that shares weights owns a slice of them: it sums the gradients of its slice, keeps the
// slice's states, and updates it where all ranks of the node read it, so new weights need not be
// copied. The bits are those of private weights.
//
// After an exchange a rank's gradients are sums only in its own slice. Parameters may be read and
// written as usual if all ranks make the same change; the next update publishes, for each slice,
// the change that its owner has made.
class SharedWeights {
 public:
  explicit SharedWeights(const TrainedModel& trained) : trained_(trained) {}

  // Whether the ranks of a node are to share one set of weights in the node's memory. Default: no.
  // It takes a CPU, a communicator that shares memory, and a node with several ranks; otherwise,
  // and with an ArrayHook, each rank has weights of its own. `group`: among the ranks of a node,
  // those with the same number share weights, such as those of one socket. Call it before setup(),
  // with the same `shared` on all ranks.
  void share(bool shared, std::int64_t group = 0);

  // --- after setup() ---
  // Whether ranks of any node share weights. The same on all ranks.
  bool are_shared() const { return sharers_ != nullptr; }
  // For each rank, the lowest one that reads the same set of weights; itself if it shares none.
  std::vector<int> holders() const;
  // "one set for the ranks of a node", "one set per rank (one rank on each node)".
  std::string describe() const;

  // --- for the optimizer ---
  // What share() was told, as ranks compare it.
  std::string setting() const {
    return is_wanted_ ? "weights once per node" : "weights on every rank";
  }
  // Makes sharers() if weights are to be shared, or notes why not. `hook_of_arrays`: a hook that
  // works on all gradients; null: there is none. Returns the former sharers, which are needed until
  // their values have moved. Collective.
  std::unique_ptr<Communicator> find_sharers(const OptimizerHook* hook_of_arrays);
  // The ranks that share weights with this one; null: no rank shares weights.
  Communicator* sharers() const { return sharers_.get(); }
  // Of each rank while weights are shared: a number for its sharers.
  const std::vector<std::int64_t>& groups() const { return groups_; }

 private:
  std::string find_why_not(const OptimizerHook* hook_of_arrays) const;

  const TrainedModel& trained_;
  bool is_wanted_ = false;
  std::int64_t group_ = 0;  // of share()
  std::unique_ptr<Communicator> sharers_;
  std::vector<std::int64_t> groups_;
  std::string why_not_;  // empty: weights are shared, or need not be
};

}  // namespace tasuki
