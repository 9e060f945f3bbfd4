// The plans of reduce-scatters: each rank gets the sums of its part and of what all ranks share.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "communicator/algorithms/planned_allreduce.hpp"
#include "plan_simulation.hpp"

namespace tasuki::testing {
namespace {

constexpr std::int64_t scatter_chunk = 256;

// How a vector is divided, with elements that all ranks get behind the parts.
enum class Parts { even, uneven, of_one_rank, of_no_rank, apart };

class ScatterPlans
    : public ::testing::TestWithParam<std::tuple<AllreduceAlgorithm, int, Parts, std::int64_t>> {
 protected:
  AllreduceAlgorithm algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::int64_t common() const { return std::get<3>(GetParam()); }

  Division division() const {
    Division made(0);
    made.parts.resize(at(ranks()));
    const auto give = [&](int rank, std::int64_t count) {
      made.append_to_part(rank, {made.common.end, made.common.end + count});
      made.common.end += count;
    };
    const Parts kind = std::get<2>(GetParam());
    for (int turn = 0; turn < (kind == Parts::apart ? 3 : 1); ++turn)
      for (int rank = 0; rank < ranks(); ++rank) switch (kind) {
          case Parts::even:
            give(rank, 400);
            break;
          case Parts::uneven:
            give(rank, (rank + ranks() - 1) % ranks() * 37);
            break;
          case Parts::of_one_rank:
            give(rank, rank + 1 == ranks() ? 1000 : 0);
            break;
          case Parts::of_no_rank:
            break;
          case Parts::apart:
            give(rank, 33 + turn);
            break;
        }
    made.common.begin = made.common.end;
    made.common.end += common();
    return made;
  }
  std::vector<MessagePlan> plans(const Division& division) const {
    std::vector<MessagePlan> plans;
    for (int rank = 0; rank < ranks(); ++rank) {
      PlannedAllreduce scatter(
          rank, ranks(), {.algorithm = algorithm(), .sizes = {.message_chunk = scatter_chunk}});
      plans.push_back(scatter.plan_for(division, DType::float32));
    }
    return plans;
  }
  static std::int64_t size_of_part(const Division& division, int rank) {
    std::int64_t elements = 0;
    for (const Range range : division.parts[at(rank)]) elements += range.size();
    return elements;
  }
};

TEST_P(ScatterPlans, AgreeBetweenPeersOnMessagesAndOrder) {
  expect_equal_lists(plans(division()));
}

TEST_P(ScatterPlans, CompleteEachRanksPartOnce) {
  const Division given = division();
  const std::int64_t count = given.common.end;
  const std::vector<MessagePlan> all = plans(given);
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(covered(all[at(rank)].need, count), std::vector<int>(at(count), 1));
    std::vector<Range> gets = given.parts[at(rank)];
    gets.push_back(given.common);
    EXPECT_EQ(covered(all[at(rank)].completion, count), covered(gets, count));
  }
}

TEST_P(ScatterPlans, GiveEachRankItsPartAndCommonSums) {
  const Division given = division();
  const std::vector<MessagePlan> all = plans(given);
  for (const std::int64_t window : {1, 2, 8}) {
    Simulation simulation(all, given.common.end, window);
    ASSERT_TRUE(simulation.run()) << "window " << window;
    for (int rank = 0; rank < ranks(); ++rank) {
      for (const Range range : given.parts[at(rank)])
        for (auto i = range.begin; i < range.end; ++i)
          expect_sum_of_all(simulation.values(at(rank))[at(i)], ranks());
      for (auto i = given.common.begin; i < given.common.end; ++i)
        EXPECT_EQ(simulation.values(at(rank))[at(i)], simulation.values(0)[at(i)]);
    }
    for (auto i = given.common.begin; i < given.common.end; ++i)
      expect_sum_of_all(simulation.values(0)[at(i)], ranks());
  }
}

// With equal parts that is (p - 1) / p of the vector.
TEST_P(ScatterPlans, SendAllButTheRanksOwnPart) {
  const Division given = division();
  const auto elements_of_parts = [&](const std::vector<Message>& messages) {
    std::int64_t elements = 0;
    for (const Message& message : messages)
      if (message.range.begin < given.common.begin) elements += message.range.size();
    return elements;
  };
  std::vector<double> bytes;
  std::int64_t most = 0;
  const std::vector<MessagePlan> all = plans(given);
  for (int rank = 0; rank < ranks(); ++rank) {
    const std::int64_t own = size_of_part(given, rank);
    const std::int64_t sent = elements_of_parts(all[at(rank)].sends);
    EXPECT_EQ(sent, given.common.begin - own) << "rank " << rank;
    most = std::max({most, sent, elements_of_parts(all[at(rank)].receives)});
    bytes.push_back(static_cast<double>(own) * sizeof(float));
  }
  EXPECT_EQ(static_cast<double>(most) * sizeof(float), cost_of_scatter(algorithm(), bytes).bytes);
}

std::string name_of_scatter(const ::testing::TestParamInfo<ScatterPlans::ParamType>& info) {
  constexpr const char* parts[] = {"even", "uneven", "of_one_rank", "of_no_rank", "apart"};
  std::string name = name_of(std::get<0>(info.param));
  std::ranges::replace(name, '-', '_');
  return fmt::format("{}_{}_{}_{}", name, std::get<1>(info.param),
                     parts[static_cast<int>(std::get<2>(info.param))], std::get<3>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    Divisions, ScatterPlans,
    ::testing::Combine(::testing::Values(AllreduceAlgorithm::ring,
                                         AllreduceAlgorithm::halving_doubling,
                                         AllreduceAlgorithm::tree, AllreduceAlgorithm::direct),
                       ::testing::Values(2, 3, 4, 5, 7, 8),
                       ::testing::Values(Parts::even, Parts::uneven, Parts::of_one_rank,
                                         Parts::of_no_rank, Parts::apart),
                       ::testing::Values(0, 5, 300)),
    name_of_scatter);

TEST(ScatterPlan, MpisAlgorithmIsOnlyForAllreduce) {
  Division halves(0);
  halves.parts = {{{0, 1000}}, {{1000, 2000}}};
  PlannedAllreduce planned(0, 2, {.algorithm = AllreduceAlgorithm::mpi});
  EXPECT_EQ(planned.plan_for(halves, DType::float32).elements_sent(), 1000);
  EXPECT_EQ(planned.plan_for(2000, DType::float32).elements_sent(), 0);
}

}  // namespace
}  // namespace tasuki::testing
