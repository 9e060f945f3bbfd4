// Topology: which ranks share a node.
#pragma once

#include <string>
#include <vector>

#include "core/error.hpp"

namespace tasuki {

// A node is a set of ranks that can share memory (MPI_Comm_split_type) and have the same host name.
// Nodes are ordered by their smallest rank, and the ranks of a node by their rank in the
// communicator, so that unequal and cyclic placements work.
struct Topology {
  int rank = 0, size = 1;
  int intra_rank = 0, intra_size = 1;  // within the node
  int inter_rank = 0, inter_size = 1;  // index of this node, and number of nodes

  std::vector<int> node_of;          // node of every rank
  std::vector<int> intra_rank_of;    // position of every rank in its node
  std::vector<std::string> host_of;  // host name of every rank
  // The scope, on this rank, of an error that all of these ranks throw (mpi/mpi.hpp).
  ErrorScope shared_error_scope = ErrorScope::every_rank;
  std::vector<int> ranks_of_node(int node) const;
  // The number of ranks on each node; 0 if nodes have different numbers.
  int ranks_per_node() const;
};

// The topology as `rank` sees it. Ranks are on the same node if they have the same `memory_group`
// (any number that ranks sharing memory have in common) and the same host.
Topology make_topology(int rank, const std::vector<int>& memory_group,
                       const std::vector<std::string>& host_of);

}  // namespace tasuki
