// The arithmetic of shares and steps.
#include "tasuki/dataset/shard_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "files.hpp"

namespace tasuki {
namespace {

using tasuki::testing::expect_error;

// Case 17 of ChainerMN's tests.
TEST(PartOf, ExactPartsAreDisjointCompleteAndNearlyEqual) {
  const std::vector<Range> three{part_of(10, 3, 0), part_of(10, 3, 1), part_of(10, 3, 2)};
  EXPECT_EQ(three, (std::vector<Range>{{0, 4}, {4, 7}, {7, 10}}));
  for (const auto& [n, parts] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {10, 3}, {1244, 23}, {2, 1}, {230945, 237}, {0, 4}, {3, 7}, {5'000'000'000, 7}}) {
    std::int64_t next = 0;
    for (std::int64_t i = 0; i < parts; ++i) {
      const Range part = part_of(n, parts, i);
      EXPECT_EQ(part.begin, next);
      EXPECT_TRUE(part.size() == n / parts || part.size() == n / parts + 1);
      next = part.end;
    }
    EXPECT_EQ(next, n);
  }
}

// Case 16: sizes s with (s - 1) * parts < n <= s * parts, from floor(n i / parts) on.
TEST(PartOf, EqualPartsCoverAll) {
  for (const std::int64_t parts : {1, 2, 3, 4, 7})
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, parts, 5 * parts - 1}) {
      std::int64_t covered = 0;
      for (std::int64_t i = 0; i < parts; ++i) {
        const Range part = part_of(n, parts, i, true);
        EXPECT_EQ(part.begin, n * i / parts);
        EXPECT_LT((part.size() - 1) * parts, n);
        EXPECT_LE(n, part.size() * parts);
        EXPECT_LE(part.begin, covered);
        EXPECT_LE(part.end, n);
        covered = std::max(covered, part.end);
      }
      EXPECT_EQ(covered, n);
    }
}

// Case 18: as large as a data set may be, where n * i no longer fits 64 bits.
TEST(PartOf, HugeCounts) {
  const std::int64_t n = std::int64_t{1} << 62;
  for (const bool equal : {false, true}) {
    std::int64_t covered = 0;
    for (std::int64_t i = 0; i < 1000; ++i) {
      const Range part = part_of(n, 1000, i, equal);
      EXPECT_LE(part.begin, covered);
      EXPECT_GT(part.end, covered);
      EXPECT_EQ(part.size(), n / 1000 + ((equal || i < n % 1000) ? 1 : 0));
      covered = part.end;
    }
    EXPECT_EQ(covered, n);
  }
  const ShardPlan plan(2'000'000'000, 3, 6);
  EXPECT_EQ(plan.share_size(0) + plan.share_size(1) + plan.share_size(2), 2'000'000'000);
  EXPECT_EQ(plan.steps_per_epoch(200), 3'333'334);
  EXPECT_EQ(plan.global_size(3'333'332, 200), 600);
  EXPECT_EQ(plan.global_size(3'333'333, 200), 200);
  EXPECT_EQ(plan.global_size(3'333'334, 200), 0);
}

struct Case {
  std::int64_t n;
  int ranks, shards;
  std::int64_t batch_size;
  bool equal;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t n : {0, 1, 2, 3, 11, 12, 13, 100, 1001, 1244})
    for (const int ranks : {1, 2, 3, 4, 7})
      for (const int per_rank : {1, 2, 3})
        for (const std::int64_t each : {1, 4, 16})
          for (const bool equal : {false, true})
            all.push_back({n, ranks, ranks * per_rank, each * per_rank, equal});
  return all;
}

TEST(ShardPlan, SizesOfSharesAndStepsAddUp) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("n {} ranks {} shards {} batch {} equal {}", c.n, c.ranks, c.shards,
                             c.batch_size, c.equal));
    const ShardPlan plan(c.n, c.ranks, c.shards, c.equal);
    const std::int64_t dealt = c.equal ? c.shards * ((c.n + c.shards - 1) / c.shards) : c.n;
    std::int64_t total = 0, largest = 0;
    for (int rank = 0; rank < c.ranks; ++rank) {
      std::int64_t share = 0;
      for (int i = 0; i < plan.shards_per_rank(); ++i) {
        const int shard = plan.first_shard(rank) + i;
        EXPECT_EQ(plan.offset_in_share(shard), share);
        share += plan.shard(shard).size();
      }
      EXPECT_EQ(plan.share_size(rank), share);
      total += share;
      largest = std::max(largest, share);
    }
    EXPECT_EQ(total, dealt);

    const std::int64_t steps = plan.steps_per_epoch(c.batch_size);
    EXPECT_EQ(steps, (largest + c.batch_size - 1) / c.batch_size);
    std::int64_t stepped = 0;
    for (std::int64_t step = 0; step <= steps; ++step) {
      std::int64_t sum = 0;
      const std::int64_t each = plan.shard_batch(c.batch_size);
      for (int shard = 0; shard < c.shards; ++shard)
        sum += std::clamp<std::int64_t>(plan.shard(shard).size() - step * each, 0, each);
      EXPECT_EQ(plan.global_size(step, c.batch_size), sum);
      if (step < steps) {
        EXPECT_GT(sum, 0);
      } else {
        EXPECT_EQ(sum, 0);
      }
      stepped += sum;
    }
    EXPECT_EQ(stepped, dealt);
  }
}

TEST(ShardPlan, StepsDoNotDependOnRanksWhenShardsAreFixed) {
  for (const std::int64_t n : {0, 1, 11, 12, 13, 1001, 10000})
    for (const int ranks : {1, 2, 3, 4, 6, 12}) {
      const ShardPlan plan(n, ranks, 12);
      const std::int64_t batch_size = 240 / ranks;
      EXPECT_EQ(plan.steps_per_epoch(batch_size), (n + 239) / 240);
      for (std::int64_t step = 0; step < 50; ++step)
        EXPECT_EQ(plan.global_size(step, batch_size), ShardPlan(n, 1, 12).global_size(step, 240));
    }
}

TEST(ShardPlan, FindsTheShardsOfAPosition) {
  for (const Case& c : cases()) {
    if (c.n > 100) continue;
    const ShardPlan plan(c.n, c.ranks, c.shards, c.equal);
    for (std::int64_t position = 0; position < c.n; ++position) {
      std::vector<int> expected, found;
      for (int shard = 0; shard < c.shards; ++shard) {
        const Range range = plan.shard(shard);
        if (range.begin <= position && position < range.end) expected.push_back(shard);
      }
      const Range shards = plan.shards_with(position);
      for (auto shard = shards.begin; shard < shards.end; ++shard)
        found.push_back(static_cast<int>(shard));
      EXPECT_EQ(found, expected) << "position " << position << " of " << c.n;
    }
  }
}

TEST(ShardPlan, RefusesWhatDoesNotDivide) {
  expect_error(ErrorKind::config, {"12 shards", "5 ranks"}, [] { ShardPlan(100, 5, 12); });
  expect_error(ErrorKind::config, {"-4 shards"}, [] { ShardPlan(100, 2, -4); });
  const ShardPlan plan(100, 2, 6);
  expect_error(ErrorKind::config, {"6 shards", "global batch of 20", "2 ranks x 10", "3 divides"},
               [&] { plan.shard_batch(10); });
  expect_error(ErrorKind::config, {"batch size of at least 1", "found 0"},
               [&] { plan.shard_batch(0); });
}

TEST(DealingOrder, IsAPermutationOfSizeAndSeed) {
  const auto order_of = [](std::int64_t n, bool shuffle, std::uint64_t seed) {
    const DealingOrder order(n, shuffle, seed);
    std::vector<std::int64_t> examples;
    for (std::int64_t i = 0; i < n; ++i) examples.push_back(order.example_at(i));
    return examples;
  };
  const auto straight = order_of(50, false, 1), shuffled = order_of(50, true, 1);
  EXPECT_TRUE(std::is_sorted(straight.begin(), straight.end()));
  EXPECT_NE(shuffled, straight);
  EXPECT_TRUE(std::is_permutation(shuffled.begin(), shuffled.end(), straight.begin()));
  EXPECT_EQ(shuffled, order_of(50, true, 1));
  EXPECT_NE(shuffled, order_of(50, true, 2));

  const auto positions = DealingOrder(50, true, 1).positions();
  for (std::int64_t i = 0; i < 50; ++i) EXPECT_EQ(positions[shuffled[i]], i);
  EXPECT_TRUE(DealingOrder(50, false, 1).positions().empty());
}

}  // namespace
}  // namespace tasuki
