// Which rank gets which GPU, and the error if a rank cannot have one.
#include "communicator/gpu/gpu_binding.hpp"

#include <gtest/gtest.h>

namespace tasuki {
namespace {

using Seen = std::vector<std::vector<std::string>>;  // GPUs by rank

// Ranks in order, with these numbers on the nodes.
Topology nodes_of(const std::vector<int>& ranks) {
  std::vector<int> groups;
  std::vector<std::string> hosts;
  for (std::size_t node = 0; node < ranks.size(); ++node) {
    const int first = static_cast<int>(groups.size());
    for (int rank = 0; rank < ranks[node]; ++rank) {
      groups.push_back(first);
      hosts.push_back("node-" + std::string(1, static_cast<char>('a' + node)));
    }
  }
  return make_topology(0, groups, hosts);
}

// Every rank of a node sees all GPUs of it.
Seen all_see(const std::vector<int>& ranks, const std::vector<int>& gpus) {
  Seen seen;
  for (std::size_t node = 0; node < ranks.size(); ++node) {
    std::vector<std::string> ids;
    for (int gpu = 0; gpu < gpus[node]; ++gpu)
      ids.push_back("gpu-" + std::to_string(node) + "-" + std::to_string(gpu));
    seen.insert(seen.end(), static_cast<std::size_t>(ranks[node]), ids);
  }
  return seen;
}

std::vector<int> indices(const GpuBinding& binding) {
  std::vector<int> found;
  for (const GpuChoice& choice : binding.of_rank) found.push_back(choice.index);
  return found;
}

TEST(GpuBinding, UsesTheLocalRanksGpu) {
  for (const auto& [ranks, gpus, expected] :
       std::vector<std::tuple<std::vector<int>, std::vector<int>, std::vector<int>>>{
           {{1}, {1}, {0}},
           {{2}, {4}, {0, 1}},
           {{4}, {4}, {0, 1, 2, 3}},
           {{2, 2}, {2, 2}, {0, 1, 0, 1}},
           {{3, 1}, {4, 1}, {0, 1, 2, 0}}}) {
    const auto binding = bind_gpus(nodes_of(ranks), all_see(ranks, gpus), {});
    EXPECT_EQ(indices(binding), expected);
    EXPECT_EQ(binding.refusal, "");
    for (const GpuChoice& choice : binding.of_rank) EXPECT_EQ(choice.ranks_on_gpu, 1);
  }
}

TEST(GpuBinding, CountsWithinTheNodeForCyclicPlacement) {
  const auto topology = make_topology(0, {0, 1, 0, 1}, {"a", "b", "a", "b"});
  const Seen seen{{"a0", "a1"}, {"b0", "b1"}, {"a0", "a1"}, {"b0", "b1"}};
  EXPECT_EQ(indices(bind_gpus(topology, seen, {})), (std::vector<int>{0, 0, 1, 1}));
}

// CUDA_VISIBLE_DEVICES may differ from rank to rank: a launcher that gives each rank its own GPU,
// or the same GPUs in another order.
TEST(GpuBinding, RespectsVisibleDevices) {
  const auto topology = nodes_of({3});
  EXPECT_EQ(indices(bind_gpus(topology, Seen{{"x"}, {"y"}, {"z"}}, {})),
            (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(indices(bind_gpus(topology, Seen{{"x", "y", "z"}, {"y", "x"}, {"x", "y", "z"}}, {})),
            (std::vector<int>{0, 0, 2}));
  EXPECT_NE(bind_gpus(topology, Seen{{"x"}, {"x"}, {"z"}}, {}).refusal, "");
}

TEST(GpuBinding, AllowsAnExplicitNumberForOneRankPerNode) {
  GpuFlags flags;
  flags.number = 1;
  EXPECT_EQ(indices(bind_gpus(nodes_of({1, 1}), all_see({1, 1}, {2, 4}), flags)),
            (std::vector<int>{1, 1}));
  const auto refused = bind_gpus(nodes_of({2}), all_see({2}, {2}), flags);
  EXPECT_NE(refused.refusal.find("--gpu 1 names one GPU, but node-a has 2 ranks"),
            std::string::npos)
      << refused.refusal;
  flags.number = 7;
  const auto missing = bind_gpus(nodes_of({1}), all_see({1}, {2}), flags);
  EXPECT_NE(missing.refusal.find("--gpu 7: rank 0 sees 2 GPU(s) on node-a"), std::string::npos)
      << missing.refusal;
}

TEST(GpuBinding, SharesGpusRoundRobin) {
  GpuFlags flags;
  flags.share = true;
  const auto binding = bind_gpus(nodes_of({5}), all_see({5}, {2}), flags);
  EXPECT_EQ(indices(binding), (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(binding.of_rank[0].ranks_on_gpu, 3);
  EXPECT_EQ(binding.of_rank[1].ranks_on_gpu, 2);
  flags.number = 1;
  EXPECT_EQ(indices(bind_gpus(nodes_of({3}), all_see({3}, {2}), flags)),
            (std::vector<int>{1, 1, 1}));
  // Sharing does not help on a node without GPUs.
  flags.number.reset();
  EXPECT_NE(bind_gpus(nodes_of({2}), all_see({2}, {0}), flags).refusal, "");
}

TEST(GpuBinding, ReportsConflictsInATable) {
  const auto binding = bind_gpus(nodes_of({1, 3}), all_see({1, 3}, {2, 2}), {});
  EXPECT_EQ(binding.refusal,
            "--gpu: each rank needs a GPU, but node-b has 2 GPU(s) for its 3 ranks\n"
            "rank  host    rank in node  wanted GPU  GPUs there\n"
            "   0  node-a             0           0           2\n"
            "   1  node-b             0           0           2\n"
            "   2  node-b             1           1           2\n"
            "   3  node-b             2           2           2  not available\n"
            "start fewer ranks there, or: --share-gpu puts several ranks on one GPU (slow, for "
            "tests)");
}

TEST(GpuBinding, NamesNodesWithoutGpus) {
  const auto binding = bind_gpus(nodes_of({1, 1}), all_see({1, 1}, {1, 0}), {});
  EXPECT_NE(binding.refusal.find("rank 1 sees no GPU on node-b"), std::string::npos)
      << binding.refusal;
  EXPECT_NE(binding.refusal.find("CUDA_VISIBLE_DEVICES"), std::string::npos);
}

TEST(GpuBinding, TruncatesLongTables) {
  const auto binding = bind_gpus(nodes_of({100}), all_see({100}, {8}), {});
  EXPECT_NE(binding.refusal.find("and 36 more ranks"), std::string::npos);
}

}  // namespace
}  // namespace tasuki
