// The plans of all algorithms, without MPI: what each rank sends is what its peer expects, no rank
// waits forever, and every element is the sum over all ranks in the end, added up everywhere alike.
#include "communicator/algorithms/message_plan.hpp"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "communicator/algorithms/algorithm_cost.hpp"
#include "communicator/algorithms/allreduce_plans.hpp"
#include "core/error.hpp"
#include "plan_simulation.hpp"

namespace tasuki::testing {
namespace {

constexpr std::int64_t chunk_bytes = 256;

std::vector<MessagePlan> plans_of(AllreduceAlgorithm algorithm, std::int64_t count, int ranks) {
  std::vector<MessagePlan> plans;
  for (int rank = 0; rank < ranks; ++rank)
    plans.push_back(plan_allreduce(algorithm, {count, sizeof(float), chunk_bytes}, rank, ranks));
  return plans;
}

class MessagePlans
    : public ::testing::TestWithParam<std::tuple<AllreduceAlgorithm, int, std::int64_t>> {
 protected:
  AllreduceAlgorithm algorithm() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::int64_t count() const { return std::get<2>(GetParam()); }
  std::vector<MessagePlan> plans() const { return plans_of(algorithm(), count(), ranks()); }
};

TEST_P(MessagePlans, AgreeBetweenPeersOnMessagesAndOrder) {
  expect_equal_lists(plans());
}

TEST_P(MessagePlans, NeedAndCompleteEveryElementOnce) {
  const std::vector<int> once(at(count()), 1);
  for (const MessagePlan& plan : plans()) {
    EXPECT_EQ(covered(plan.need, count()), once);
    EXPECT_EQ(covered(plan.completion, count()), once);
  }
}

TEST_P(MessagePlans, SendMessagesAfterThePiecesTheyUse) {
  for (const MessagePlan& plan : plans()) {
    for (const auto* list : {&plan.sends, &plan.receives}) {
      for (const Message& message : *list) {
        EXPECT_LE(message.range.size() * std::int64_t{sizeof(float)}, chunk_bytes);
        if (message.arrival == Arrival::held && !message.is_final) continue;
        const std::vector<Range> before(plan.need.begin(), plan.need.begin() + message.pieces);
        const std::vector<int> ready = covered(before, count());
        for (auto i = message.range.begin; i < message.range.end; ++i) ASSERT_EQ(ready[at(i)], 1);
      }
    }
  }
}

TEST_P(MessagePlans, GiveAllRanksTheSameSum) {
  const std::vector<MessagePlan> all = plans();
  for (const std::int64_t window : {1, 2, 8}) {
    Simulation simulation(all, count(), window);
    ASSERT_TRUE(simulation.run()) << "window " << window;
    for (std::int64_t i = 0; i < count(); ++i) {
      const std::string& sum = simulation.values(0)[at(i)];
      for (int rank = 0; rank < ranks(); ++rank)
        EXPECT_EQ(simulation.values(at(rank))[at(i)], sum) << "rank " << rank;
      expect_sum_of_all(sum, ranks());
    }
  }
}

// What cost_of() says is what the plans do, up to a cache line of every piece.
TEST_P(MessagePlans, SendTheBytesOfTheCostModel) {
  std::int64_t most = 0;
  for (const MessagePlan& plan : plans()) {
    std::int64_t received = 0;
    for (const Message& message : plan.receives) received += message.range.size();
    most = std::max({most, plan.elements_sent(), received});
  }
  const double bytes = static_cast<double>(count()) * sizeof(float);
  const double expected = cost_of(algorithm(), bytes, ranks()).bytes;
  EXPECT_NEAR(static_cast<double>(most) * sizeof(float), expected, 2 * 64 * ranks());
}

std::string name_of_plan(const ::testing::TestParamInfo<MessagePlans::ParamType>& info) {
  std::string name = name_of(std::get<0>(info.param));
  std::ranges::replace(name, '-', '_');
  return fmt::format("{}_{}_{}", name, std::get<1>(info.param), std::get<2>(info.param));
}

INSTANTIATE_TEST_SUITE_P(Sizes, MessagePlans,
                         ::testing::Combine(::testing::Values(AllreduceAlgorithm::ring,
                                                              AllreduceAlgorithm::halving_doubling,
                                                              AllreduceAlgorithm::tree,
                                                              AllreduceAlgorithm::direct),
                                            ::testing::Values(2, 3, 4, 5, 6, 7, 8),
                                            ::testing::Values(0, 1, 15, 16, 17, 1000, 4096)),
                         name_of_plan);

TEST(PlanBuilder, RejectsPartlyNewMessages) {
  PlanBuilder plan;
  plan.send(1, {0, 10});
  EXPECT_THROW(plan.send(1, {5, 15}), Error);
}

}  // namespace
}  // namespace tasuki::testing
