#include "communicator/topology.hpp"

#include <map>
#include <utility>

#include "core/error.hpp"

namespace tasuki {

std::vector<int> Topology::ranks_of_node(int node) const {
  std::vector<int> ranks;
  for (int other = 0; other < size; ++other)
    if (node_of[static_cast<std::size_t>(other)] == node) ranks.push_back(other);
  return ranks;
}

int Topology::ranks_per_node() const {
  std::vector<int> ranks(static_cast<std::size_t>(inter_size), 0);
  for (const int node : node_of) ++ranks[static_cast<std::size_t>(node)];
  for (const int count : ranks)
    if (count != ranks.front()) return 0;
  return ranks.front();
}

Topology make_topology(int rank, const std::vector<int>& memory_group,
                       const std::vector<std::string>& host_of) {
  TASUKI_CHECK(memory_group.size() == host_of.size() && rank >= 0 &&
                   static_cast<std::size_t>(rank) < host_of.size(),
               "topology of rank {} from {} groups and {} hosts", rank, memory_group.size(),
               host_of.size());
  Topology topology;
  topology.rank = rank;
  topology.size = checked_cast<int>(host_of.size(), "number of ranks");
  topology.host_of = host_of;

  // In order of rank, so that nodes are numbered by their smallest rank.
  std::map<std::pair<int, std::string>, int> number_of_node;
  std::vector<int> ranks_seen;
  for (std::size_t other = 0; other < host_of.size(); ++other) {
    const auto [entry, is_new] = number_of_node.try_emplace({memory_group[other], host_of[other]},
                                                            static_cast<int>(ranks_seen.size()));
    if (is_new) ranks_seen.push_back(0);
    topology.node_of.push_back(entry->second);
    topology.intra_rank_of.push_back(ranks_seen[static_cast<std::size_t>(entry->second)]++);
  }
  const auto self = static_cast<std::size_t>(rank);
  topology.inter_rank = topology.node_of[self];
  topology.inter_size = static_cast<int>(ranks_seen.size());
  topology.intra_rank = topology.intra_rank_of[self];
  topology.intra_size = ranks_seen[static_cast<std::size_t>(topology.inter_rank)];
  return topology;
}

}  // namespace tasuki
