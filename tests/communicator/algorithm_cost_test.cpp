// What algorithms are expected to take, and which of them is chosen.
#include "communicator/algorithms/algorithm_cost.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tasuki {
namespace {

TEST(Cost, StepsOfEachAlgorithm) {
  EXPECT_EQ(cost_of(AllreduceAlgorithm::ring, 1, 8).steps, 14);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::halving_doubling, 1, 8).steps, 6);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::halving_doubling, 1, 7).steps, 7);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::tree, 1, 5).steps, 6);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::direct, 1, 8).steps, 1);
  EXPECT_EQ(cost_of(AllreduceAlgorithm::ring, 1, 1).steps, 0);
}

TEST(Cost, StepsOfEachReduceScatter) {
  const std::vector<double> bytes(7, 1e3);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::ring, bytes).steps, 6);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::halving_doubling, bytes).steps, 3);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::direct, bytes).steps, 1);
  EXPECT_EQ(cost_of_scatter(AllreduceAlgorithm::ring, std::vector<double>{1e3}).bytes, 0);
}

// All send to one rank: in a ring it receives a part once.
TEST(Cost, PrefersTheRingForPartsOfOneRank) {
  const Link link{.latency = 1e-4, .bytes_per_second = 1e8};
  std::vector<double> bytes(8, 64e6);
  EXPECT_EQ(fastest_scatter(bytes, link), AllreduceAlgorithm::direct);
  bytes = {0, 64e6, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(fastest_scatter(bytes, link), AllreduceAlgorithm::ring);
}

// Two nodes of four ranks. Of a ring, one rank of each sends to the other node; else all do.
TEST(Cost, SharesTheLinkAmongANodesRanks) {
  const Link between{.latency = 1e-4, .bytes_per_second = 1e8};
  const Link inside{.latency = 1e-6, .bytes_per_second = 1e10};
  const auto of = [&](const std::vector<int>& nodes) {
    std::vector<std::string> hosts;
    for (const int node : nodes) hosts.push_back(fmt::format("host{}", node));
    return network_of(make_topology(0, nodes, hosts), between, inside);
  };
  const Network blocks = of({0, 0, 0, 0, 1, 1, 1, 1}), cyclic = of({0, 1, 0, 1, 0, 1, 0, 1});
  const auto seconds = [](AllreduceAlgorithm algorithm, const Network& network) {
    return predicted_seconds(algorithm, 64e6, 8, network);
  };
  constexpr auto ring = AllreduceAlgorithm::ring, halving = AllreduceAlgorithm::halving_doubling;
  const double bytes = 2 * 7 / 8.0 * 64e6;
  EXPECT_NEAR(seconds(ring, blocks), 14e-4 + bytes / 1e8, 1e-9);
  EXPECT_NEAR(seconds(halving, blocks), 6e-4 + 4 * bytes / 1e8, 1e-9);
  EXPECT_NEAR(seconds(ring, cyclic), 14e-4 + 4 * bytes / 1e8, 1e-9);
  EXPECT_NEAR(seconds(ring, of({0, 0, 0, 0, 0, 0, 0, 0})), 14e-6 + bytes / 1e10, 1e-9);
  EXPECT_NEAR(seconds(halving, of({0, 1, 2, 3, 4, 5, 6, 7})), 6e-4 + bytes / 1e8, 1e-9);
  EXPECT_EQ(fastest_algorithm(64e6, 8, blocks), ring);
  EXPECT_EQ(fastest_algorithm(64e6, 8, cyclic), halving);
}

// Memory that is slower than the network decides, too.
TEST(Cost, FollowsTheSlowerLevel) {
  const Link between{.latency = 1e-5, .bytes_per_second = 1e9};
  const Link inside{.latency = 1e-3, .bytes_per_second = 1e7};
  const Network network =
      network_of(make_topology(0, {0, 0, 1, 1}, {"a", "a", "b", "b"}), between, inside);
  EXPECT_NEAR(predicted_seconds(AllreduceAlgorithm::ring, 4e6, 4, network), 6e-3 + 6e6 / 1e7, 1e-9);
}

TEST(Cost, DependsOnLatencyForSmallMessages) {
  const Link link{.latency = 1e-4, .bytes_per_second = 1e8};
  EXPECT_EQ(fastest_algorithm(8, 16, link), AllreduceAlgorithm::direct);
  EXPECT_EQ(fastest_algorithm(64e3, 16, link), AllreduceAlgorithm::halving_doubling);
  EXPECT_EQ(fastest_algorithm(64e6, 15, link), AllreduceAlgorithm::ring);
}

}  // namespace
}  // namespace tasuki
