#include "saving/replica_set.hpp"

#include <algorithm>

#include "communicator/run_on_root.hpp"
#include "core/error.hpp"

namespace tasuki {

ReplicaSets complete_replica_sets(ReplicaSets sets, int ranks) {
  std::vector<bool> is_named(static_cast<std::size_t>(ranks));
  for (std::vector<int>& set : sets) {
    if (set.empty()) fail_everywhere(ErrorKind::usage, "a replica set without ranks was given");
    for (const int rank : set) {
      if (rank < 0 || rank >= ranks)
        fail_everywhere(ErrorKind::usage, "rank {} of a replica set does not exist; there are {}",
                        rank, ranks);
      if (is_named[static_cast<std::size_t>(rank)])
        fail_everywhere(ErrorKind::usage, "rank {} is named twice in the replica sets", rank);
      is_named[static_cast<std::size_t>(rank)] = true;
    }
    std::ranges::sort(set);
  }
  std::vector<int> rest;
  for (int rank = 0; rank < ranks; ++rank)
    if (!is_named[static_cast<std::size_t>(rank)]) rest.push_back(rank);
  if (!rest.empty()) sets.push_back(std::move(rest));
  return sets;
}

ReplicaSet::ReplicaSet(Communicator& whole, const ReplicaSets& sets) : whole_(whole) {
  const ReplicaSets all = complete_replica_sets(sets, whole.size());
  const auto own = std::ranges::find_if(all, [&](const std::vector<int>& set) {
    return std::ranges::binary_search(set, whole.rank());
  });
  members_ = whole.split(static_cast<int>(own - all.begin()), whole.rank());
  suffix_ = fmt::format(".{}", own->front());
}

SavingRanks::SavingRanks(Communicator* all, const ReplicaSet* replicas)
    : members(replicas ? &replicas->members() : all),
      whole(replicas ? &replicas->whole() : all),
      suffix(replicas ? replicas->suffix() : "") {}

void SavingRanks::on_first(const std::function<void()>& work) const {
  if (whole == nullptr) return work();
  run_on_all(*whole, [&] {
    if (is_first()) work();
  });
}

}  // namespace tasuki
