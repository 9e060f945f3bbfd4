// SharedWeights: whether the ranks of a node share one copy of a model's weights, and which ranks
// share with which.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "communicator/communicator.hpp"
#include "optimizer/hook.hpp"
#include "optimizer/trained_model.hpp"

namespace tasuki {

// Each rank that shares weights owns a slice of them. It sums the gradients of its slice, keeps the
// optimizer states of its slice, and updates the slice in memory that all ranks of the node read,
// so new weights need not be copied. Weights have the same bits as without sharing.
//
// After an exchange, a rank's gradients are sums only in its own slice. Parameters may be read and
// written as usual if all ranks make the same change: the next update publishes the change that
// each owner has made to its slice.
class SharedWeights {
 public:
  explicit SharedWeights(const TrainedModel& trained) : trained_(trained) {}
  SharedWeights(const SharedWeights&) = delete;
  SharedWeights& operator=(const SharedWeights&) = delete;

  // Whether the ranks of a node are to share one copy of the weights. Default: no. Sharing needs a
  // model on CPUs, a communicator that shares memory, several ranks on a node, and no ArrayHook;
  // otherwise each rank keeps its own copy. `group`: only ranks with the same number share, such as
  // the ranks of one socket. Call it before setup(), with the same `shared` on all ranks.
  void share(bool shared, std::int64_t group = 0);

  // --- after setup() ---
  // Whether ranks of any node share weights. The same on all ranks.
  bool are_shared() const { return sharers_ != nullptr; }
  // Whether all ranks of each node share one copy, not several groups of them.
  bool are_by_node() const;
  // For each rank, the lowest rank that shares its copy of the weights: the rank itself if it
  // shares with none.
  std::vector<int> holders() const;
  // "one set for the ranks of a node", "one set per rank (one rank on each node)".
  std::string describe() const;
  // The ranks that share weights with this one; null: weights are not shared.
  Communicator* sharers() const { return sharers_.get(); }
  // For each rank, the number of its group of sharers. Only while weights are shared.
  const std::vector<std::int64_t>& groups() const { return groups_; }

 private:
  // --- for the optimizer ---
  friend class Optimizer;
  // The choice made by share(), which ranks compare.
  std::string_view setting() const {
    return is_wanted_ ? "weights once per node" : "weights on every rank";
  }
  // Creates sharers() if weights are to be shared, or records why they are not. `hook_of_arrays`: a
  // hook that works on all gradients; null: there is none. Returns the former sharers, which the
  // caller keeps until the values have moved out of their memory. Collective.
  std::unique_ptr<Communicator> find_sharers(const OptimizerHook* hook_of_arrays);

  std::string find_why_not(const OptimizerHook* hook_of_arrays) const;

  const TrainedModel& trained_;
  bool is_wanted_ = false;
  std::int64_t group_ = 0;  // of share()
  std::unique_ptr<Communicator> sharers_;
  std::vector<std::int64_t> groups_;
  std::string why_not_;  // empty: weights are shared, or were not asked to be
};

}  // namespace tasuki
