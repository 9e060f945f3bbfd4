// Replica sets: ranks of a job that hold the same state, so that one file serves all of them
// (ChainerMN's multi_node_snapshot). Jobs whose ranks train parts of a model have several.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "communicator/communicator.hpp"

namespace tasuki {

// Ranks by set; each rank is in one of them.
using ReplicaSets = std::vector<std::vector<int>>;

// The sets in the order given, their ranks ascending; ranks that are in none of them form another
// one. For 4 ranks, {{0}} becomes {0}, {1, 2, 3}, and {} becomes one set of all ranks. An empty
// set, a rank twice or a rank that the job does not have is a usage error.
ReplicaSets complete_replica_sets(ReplicaSets sets, int ranks);

// The set that this rank is in.
class ReplicaSet {
 public:
  // Collective over `whole`, which must outlive this object; every rank gives the same sets.
  ReplicaSet(Communicator& whole, const ReplicaSets& sets);

  // All ranks of the job.
  Communicator& whole() const { return whole_; }
  // The ranks of this set, in order; the first of them writes and reads.
  Communicator& members() const { return *members_; }
  // The suffix of this set's file names: its first rank, as in ".2".
  const std::string& suffix() const { return suffix_; }

 private:
  Communicator& whole_;
  std::unique_ptr<Communicator> members_;
  std::string suffix_;
};

// The ranks whose state is in one file, and all ranks that must know the outcome of writing and
// reading it. Without a communicator: one process.
struct SavingRanks {
  Communicator* members;
  Communicator* whole;
  std::string suffix;  // of the file's name

  // `all` is not used if there are replica sets.
  SavingRanks(Communicator* all, const ReplicaSet* replicas);

  // Whether this rank writes and reads the file.
  bool is_first() const { return members == nullptr || members->rank() == 0; }
  // Calls `work` on the first rank of each file. All ranks wait for it and share its error.
  void on_first(const std::function<void()>& work) const;
};

}  // namespace tasuki
