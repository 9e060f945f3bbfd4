// The arithmetic of shares and steps.
#include "dataset/shard_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "files.hpp"

namespace tasuki {
namespace {

using tasuki::testing::expect_error;

// Case 17 of ChainerMN's tests.
TEST(PartOf, GivesDisjointCompleteAndNearlyEqualParts) {
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
TEST(PartOf, GivesEqualPartsThatCoverAll) {
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
TEST(PartOf, HandlesHugeCounts) {
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
  EXPECT_EQ(plan.steps_per_epoch(600), 3'333'334);
  EXPECT_EQ(plan.global_size(3'333'332, 600), 600);
  EXPECT_EQ(plan.global_size(3'333'333, 600), 200);
  EXPECT_EQ(plan.global_size(3'333'334, 600), 0);
  EXPECT_EQ(plan.steps_per_epoch(n), 1);
  EXPECT_EQ(plan.global_size(0, n), 2'000'000'000);
}

struct Case {
  std::int64_t n;
  int ranks, shards;
  std::int64_t global_batch;
  bool equal;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t n : {0, 1, 2, 3, 11, 12, 13, 100, 1001, 1244})
    for (const int ranks : {1, 2, 3, 4, 7})
      for (const int per_rank : {1, 2, 3})
        for (const std::int64_t global_batch : {1, 2, 5, 16, 84, 100})
          for (const bool equal : {false, true})
            all.push_back({n, ranks, ranks * per_rank, global_batch, equal});
  return all;
}

TEST(ShardPlan, ShareAndStepSizesAddUp) {
  for (const Case& c : cases()) {
    SCOPED_TRACE(fmt::format("n {} ranks {} shards {} batch {} equal {}", c.n, c.ranks, c.shards,
                             c.global_batch, c.equal));
    const ShardPlan plan(c.n, c.ranks, c.shards, c.equal);
    const std::int64_t dealt = c.equal ? c.shards * ((c.n + c.shards - 1) / c.shards) : c.n;
    std::int64_t total = 0;
    for (int rank = 0; rank < c.ranks; ++rank) {
      std::int64_t share = 0;
      for (int i = 0; i < plan.shards_per_rank(); ++i) {
        const int shard = plan.first_shard(rank) + i;
        EXPECT_EQ(plan.offset_in_share(shard), share);
        share += plan.shard(shard).size();
      }
      EXPECT_EQ(plan.share_size(rank), share);
      total += share;
    }
    EXPECT_EQ(total, dealt);

    const std::int64_t steps = plan.steps_per_epoch(c.global_batch);
    EXPECT_EQ(steps, (dealt + c.global_batch - 1) / c.global_batch);
    std::vector<std::int64_t> given(static_cast<std::size_t>(c.shards));
    for (std::int64_t step = 0; step <= steps; ++step) {
      std::int64_t sum = 0, least = c.global_batch, most = 0;
      for (int shard = 0; shard < c.shards; ++shard) {
        const Range batch = plan.shard_batch(shard, step, c.global_batch);
        EXPECT_EQ(batch.begin, given[static_cast<std::size_t>(shard)]);
        given[static_cast<std::size_t>(shard)] = batch.end;
        least = std::min(least, batch.size());
        most = std::max(most, batch.size());
        sum += batch.size();
      }
      EXPECT_GE(least, 0);
      EXPECT_LE(most - least, 1);
      EXPECT_EQ(plan.global_size(step, c.global_batch), sum);
      EXPECT_EQ(sum, std::clamp<std::int64_t>(dealt - step * c.global_batch, 0, c.global_batch));
    }
    for (int shard = 0; shard < c.shards; ++shard)
      EXPECT_EQ(given[static_cast<std::size_t>(shard)], plan.shard(shard).size());
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

TEST(ShardPlan, RejectsInvalidArguments) {
  expect_error(ErrorKind::config, {"12 shards", "5 ranks"}, [] { ShardPlan(100, 5, 12); });
  expect_error(ErrorKind::config, {"-4 shards"}, [] { ShardPlan(100, 2, -4); });
  expect_error(ErrorKind::config, {"batch size of at least 1", "found 0"},
               [] { ShardPlan(100, 2, 6).steps_per_epoch(0); });
}

TEST(DealingOrder, IsAPermutationForSizeAndSeed) {
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
