// Which ranks share a node, as a pure function of groups and host names.
#include "communicator/topology.hpp"

#include <gtest/gtest.h>

namespace tasuki {
namespace {

TEST(Topology, OneNode) {
  const auto topology = make_topology(2, {0, 0, 0}, {"a", "a", "a"});
  EXPECT_EQ(topology.size, 3);
  EXPECT_EQ(topology.intra_rank, 2);
  EXPECT_EQ(topology.intra_size, 3);
  EXPECT_EQ(topology.inter_rank, 0);
  EXPECT_EQ(topology.inter_size, 1);
  EXPECT_EQ(topology.ranks_per_node(), 3);
}

TEST(Topology, UnequalNodes) {
  const auto topology = make_topology(3, {0, 0, 0, 3}, {"a", "a", "a", "b"});
  EXPECT_EQ(topology.inter_rank, 1);
  EXPECT_EQ(topology.intra_rank, 0);
  EXPECT_EQ(topology.intra_size, 1);
  EXPECT_EQ(topology.ranks_per_node(), 0);
  EXPECT_EQ(topology.ranks_of_node(0), (std::vector{0, 1, 2}));
  EXPECT_EQ(topology.ranks_of_node(1), (std::vector{3}));
}

TEST(Topology, NumbersNodesByTheirSmallestRank) {
  // Ranks dealt to hosts in turn; the second host's name sorts before the first's.
  const std::vector<int> groups{0, 1, 2, 0, 1, 2, 0};
  const std::vector<std::string> hosts{"z", "a", "m", "z", "a", "m", "z"};
  const auto topology = make_topology(6, groups, hosts);
  EXPECT_EQ(topology.node_of, (std::vector{0, 1, 2, 0, 1, 2, 0}));
  EXPECT_EQ(topology.intra_rank_of, (std::vector{0, 0, 0, 1, 1, 1, 2}));
  EXPECT_EQ(topology.intra_rank, 2);
  EXPECT_EQ(topology.inter_rank, 0);
  EXPECT_EQ(topology.inter_size, 3);
  EXPECT_EQ(topology.ranks_of_node(1), (std::vector{1, 4}));
}

TEST(Topology, TreatsTwoHostNamesAsTwoNodes) {
  const auto topology = make_topology(1, {0, 0}, {"a", "b"});
  EXPECT_EQ(topology.inter_size, 2);
  EXPECT_EQ(topology.inter_rank, 1);
}

TEST(Topology, TreatsUnsharedMemoryAsTwoNodes) {
  const auto topology = make_topology(0, {0, 1}, {"container", "container"});
  EXPECT_EQ(topology.inter_size, 2);
}

}  // namespace
}  // namespace tasuki
