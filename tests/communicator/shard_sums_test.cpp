// Sums of shards: the same bits with every communicator, placement and number of ranks.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <map>

#include "communicator/algorithms/shard_tree.hpp"
#include "communicator/sum_search.hpp"
#include "communicator_fixture.hpp"
#include "core/philox.hpp"

namespace tasuki {
namespace {

using Values = std::vector<float>;

std::vector<std::string> texts(const std::vector<Range>& nodes) {
  std::vector<std::string> all;
  for (const Range& node : nodes) all.push_back(fmt::format("{}-{}", node.begin, node.end));
  return all;
}

TEST(ShardTree, DividesAnyShardsIntoTheFewestNodes) {
  using Texts = std::vector<std::string>;
  const ShardTree tree(24);
  EXPECT_EQ(texts(tree.roots_of({0, 24})), Texts({"0-24"}));
  EXPECT_EQ(texts(tree.roots_of({0, 12})), Texts({"0-8", "8-12"}));
  EXPECT_EQ(texts(tree.roots_of({12, 24})), Texts({"12-16", "16-24"}));
  EXPECT_EQ(texts(tree.roots_of({8, 16})), Texts({"8-16"}));
  EXPECT_EQ(texts(tree.roots_of({6, 12})), Texts({"6-8", "8-12"}));
  EXPECT_EQ(texts(tree.roots_of({3, 6})), Texts({"3-4", "4-6"}));
  EXPECT_EQ(texts(tree.roots_of({7, 7})), Texts());
  EXPECT_EQ(texts(ShardTree(1).roots_of({0, 1})), Texts({"0-1"}));
  EXPECT_EQ(texts(ShardTree(5).roots_of({0, 5})), Texts({"0-5"}));
  EXPECT_EQ(texts(ShardTree(5).roots_of({1, 5})), Texts({"1-2", "2-4", "4-5"}));
}

// However shards are divided, the pieces add up to the same tree.
TEST(ShardTree, NeedsOneRootForAllShards) {
  for (std::int64_t shards = 1; shards <= 48; ++shards) {
    const ShardTree tree(shards);
    for (std::int64_t parts = 1; parts <= shards; ++parts) {
      std::vector<Range> sources;
      for (std::int64_t i = 0; i < parts; ++i)
        for (const Range& root : tree.roots_of(part_of(shards, parts, i))) sources.push_back(root);
      const TreeOrder order(tree, sources);
      ASSERT_EQ(texts(order.roots), texts({{0, shards}})) << parts << " parts";
    }
  }
}

// As the definition of the tree says, shard by shard.
Values sum_of(const ShardTree& tree, Range node, const std::vector<Values>& shards) {
  if (node.size() == 1) return shards[static_cast<std::size_t>(node.begin)];
  std::int64_t half = 1;
  while (2 * half < node.size()) half *= 2;
  Values sum = sum_of(tree, {node.begin, node.begin + half}, shards);
  const Values right = sum_of(tree, {node.begin + half, node.end}, shards);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

class ShardSums : public EveryCommunicator {
 protected:
  static constexpr std::int64_t count = 70'000;  // several messages

  // Numbers of many magnitudes, so that nearly every other order of the sum shows.
  static std::vector<Values> random_shards(std::int64_t shards) {
    std::vector<Values> all;
    for (std::int64_t shard = 0; shard < shards; ++shard) {
      RandomStream random(7, static_cast<std::uint64_t>(shard));
      Values& values = all.emplace_back();
      for (std::int64_t i = 0; i < count; ++i) {
        const std::uint32_t bits = random.next();
        values.push_back(std::ldexp(static_cast<float>(static_cast<std::int32_t>(bits)),
                                    static_cast<int>(bits % 11) - 40));
      }
    }
    return all;
  }

  // What this rank brings, in an array from the communicator.
  void make(std::int64_t shards) {
    const ShardTree tree(shards);
    sources_ = {tree, {}, count + 16};
    for (int each = 0; each < size(); ++each)
      sources_.of_group.push_back(tree.roots_of(part_of(shards, size(), each)));
    const auto arrays = static_cast<std::int64_t>(comm_->arrays_for(sources_));
    memory_ = allocated(arrays * sources_.stride);
    memory_.fill(std::nanf(""));  // what is not a source is not read
    values_ = random_shards(shards);
    expected_ = sum_of(tree, {0, shards}, values_);
    fill();
  }
  void fill() const {
    const auto& own = sources_.of_group[static_cast<std::size_t>(rank())];
    for (std::size_t array = 0; array < own.size(); ++array) {
      const Values sum = sum_of(sources_.tree, own[array], values_);
      std::memcpy(memory_.data<float>() + static_cast<std::int64_t>(array) * sources_.stride,
                  sum.data(), sum.size() * sizeof(float));
    }
  }
  GradientView view(Range range, std::span<const GradientView::Segment> segments) const {
    return {.arena = memory_.slice(range.begin, range.end),
            .segments = segments,
            .first = range.begin,
            .shards = &sources_};
  }
  void expect_sums(Range range, const std::string& what) const {
    std::int64_t wrong = 0;
    for (std::int64_t i = range.begin; i < range.end; ++i)
      wrong += std::bit_cast<std::uint32_t>(memory_.data<float>()[i]) !=
               std::bit_cast<std::uint32_t>(expected_[static_cast<std::size_t>(i)]);
    EXPECT_EQ(wrong, 0) << what << ", " << range.begin << " to " << range.end;
  }

  ShardSources sources_;
  Tensor memory_;
  std::vector<Values> values_;
  Values expected_;
};

TEST_P(ShardSums, AddInTheOrderOfTheTree) {
  for (const std::int64_t shards : {24, 8, 12, 7, 5}) {
    if (shards < size()) continue;
    make(shards);
    const std::vector<GradientView::Segment> segments{{0, 30'000}, {30'000, count - 30'000}};
    comm_->sum_gradients(view({0, count}, segments));
    expect_sums({0, count}, fmt::format("{} shards", shards));
  }
}

TEST_P(ShardSums, ComeInRangesAndInTheBackground) {
  make(24);
  const std::vector<Range> ranges{{0, 20'000}, {20'000, 20'016}, {20'016, count}};
  for (const Background how : {Background::thread, Background::slices})
    for (int turn = 0; turn < 3; ++turn) {
      if (!comm_->supports(how)) continue;
      fill();
      comm_->barrier();
      std::vector<std::unique_ptr<PendingExchange>> pending;
      std::vector<std::vector<GradientView::Segment>> segments;
      for (const Range& range : ranges) segments.push_back({{0, range.size()}});
      for (std::size_t i = 0; i < ranges.size(); ++i) {
        GradientView part = view(ranges[i], segments[i]);
        part.is_agreed = turn > 0;
        pending.push_back(comm_->start_sum_gradients(part, how));
      }
      for (const auto& exchange : pending) exchange->wait();
      for (const Range& range : ranges) expect_sums(range, "in the background");
      comm_->barrier();
    }
}

// As with --shard-optimizer: a rank needs its part, and all need what follows.
TEST_P(ShardSums, AreDividedAmongRanks) {
  make(24);
  const std::int64_t divided = count - 1000;
  std::vector<Range> needed;
  for (int each = 0; each < size(); ++each)
    needed.push_back({divided / 16 * each / size() * 16,
                      each + 1 == size() ? divided : divided / 16 * (each + 1) / size() * 16});
  const std::vector<GradientView::Segment> segments{{0, count}};
  GradientView all = view({0, count}, segments);
  all.needed = needed;
  comm_->sum_gradients(all);
  expect_sums(needed[static_cast<std::size_t>(rank())], "own part");
  expect_sums({divided, count}, "common part");
}

TEST_P(ShardSums, AreSearched) {
  auto* const search = dynamic_cast<SumSearch*>(comm_.get());
  if (search == nullptr || !search->can_search_sums()) return;
  make(24);
  const std::vector<GradientView::Segment> segments{{0, count}};
  for (const bool is_bad : {false, true}) {
    fill();
    if (is_bad && rank() == size() - 1) memory_.data<float>()[count - 1] = HUGE_VALF;
    search->begin_search();
    comm_->sum_gradients(view({0, count}, segments));
    EXPECT_EQ(search->end_search(), is_bad);
    comm_->barrier();
  }
}

TASUKI_FOR_EVERY_COMMUNICATOR(ShardSums);

}  // namespace
}  // namespace tasuki
