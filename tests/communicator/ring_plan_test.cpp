// The ring's plan, without MPI: what each rank sends is what the next one expects, and every
// element is added once by every rank.
#include "tasuki/communicator/mpi/ring_allreduce.hpp"

#include <gtest/gtest.h>

#include <set>

namespace tasuki {
namespace {

class RingPlanOf : public ::testing::TestWithParam<std::tuple<int, std::int64_t>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  std::int64_t count() const { return std::get<1>(GetParam()); }
  RingPlan plan(int rank) const { return {count(), sizeof(float), rank, ranks(), 256}; }
};

std::vector<int> covered(const std::vector<Range>& ranges, std::int64_t count) {
  std::vector<int> times(static_cast<std::size_t>(count), 0);
  for (const Range range : ranges)
    for (auto i = range.begin; i < range.end; ++i) ++times[static_cast<std::size_t>(i)];
  return times;
}

TEST_P(RingPlanOf, NeighboursAgreeOnEveryMessage) {
  for (int rank = 0; rank < ranks(); ++rank) {
    const RingPlan mine = plan(rank), next = plan((rank + 1) % ranks());
    ASSERT_EQ(mine.messages(), next.messages());
    for (std::int64_t message = 0; message < mine.messages(); ++message) {
      EXPECT_EQ(mine.sent(message).begin, next.received(message).begin);
      EXPECT_EQ(mine.sent(message).end, next.received(message).end);
      EXPECT_LE(mine.sent(message).size(), mine.longest_chunk());
    }
  }
}

TEST_P(RingPlanOf, EveryElementIsNeededOnceAndFinishedOnce) {
  const std::vector<int> once(static_cast<std::size_t>(count()), 1);
  for (int rank = 0; rank < ranks(); ++rank) {
    EXPECT_EQ(covered(plan(rank).order_of_need(), count()), once);
    EXPECT_EQ(covered(plan(rank).order_of_completion(), count()), once);
  }
}

TEST_P(RingPlanOf, PlacesInTheOrderOfNeedAreThoseOfTheMessages) {
  const RingPlan mine = plan(ranks() - 1);
  const auto order = mine.order_of_need();
  for (std::int64_t message = 0; mine.is_added(message); ++message) {
    const auto place = order.at(static_cast<std::size_t>(mine.need_of_received(message)));
    EXPECT_EQ(place.begin, mine.received(message).begin);
    if (message >= mine.chunks_per_block()) continue;
    const auto sent = order.at(static_cast<std::size_t>(RingPlan::need_of_sent(message)));
    EXPECT_EQ(sent.begin, mine.sent(message).begin);
  }
}

// The bytes that one rank sends: 2 (p - 1) / p of the vector, up to a cache line per block.
TEST_P(RingPlanOf, SendsTheLeastPossible) {
  const RingPlan mine = plan(0);
  std::int64_t sent = 0;
  for (std::int64_t message = 0; message < mine.messages(); ++message)
    sent += mine.sent(message).size();
  const std::int64_t bound = 2 * (ranks() - 1) * count() / ranks();
  EXPECT_LE(sent, bound + 2 * ranks() * 16);
}

// Runs the plan of all ranks on numbers instead of messages.
TEST_P(RingPlanOf, SumsEverything) {
  std::vector<std::vector<long>> values;
  std::vector<RingPlan> plans;
  for (int rank = 0; rank < ranks(); ++rank) {
    plans.push_back(plan(rank));
    values.emplace_back(static_cast<std::size_t>(count()), 1L << rank);
  }
  for (std::int64_t message = 0; message < plans[0].messages(); ++message) {
    const auto before = values;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
      const auto& sender = before[(rank + values.size() - 1) % values.size()];
      const Range range = plans[rank].received(message);
      for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end);
           ++i)
        values[rank][i] = plans[rank].is_added(message) ? values[rank][i] + sender[i] : sender[i];
    }
  }
  const std::vector<long> expected(static_cast<std::size_t>(count()), (1L << ranks()) - 1);
  for (const auto& result : values) EXPECT_EQ(result, expected);
}

INSTANTIATE_TEST_SUITE_P(Sizes, RingPlanOf,
                         ::testing::Combine(::testing::Values(2, 3, 4, 5, 7),
                                            ::testing::Values(1, 15, 16, 17, 1000, 4096)));

}  // namespace
}  // namespace tasuki
