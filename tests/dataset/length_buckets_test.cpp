// Batches of examples of similar length (LengthBuckets).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "core/philox.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/iterators/share_iterator.hpp"

namespace tasuki {
namespace {

// Sequences of 1 to 40 numbers.
std::shared_ptr<const Dataset> sequences(std::int64_t count) {
  auto made = std::make_shared<InMemoryDataset>(DatasetHeader{count,
                                                              {{.name = "x",
                                                                .shape = {0},
                                                                .stored = DType::int32,
                                                                .decoded = DType::int32,
                                                                .is_ragged = true}}});
  RandomStream stream(5);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<std::int32_t> x(1 + stream.below(40), static_cast<std::int32_t>(i));
    const std::array<std::span<const std::byte>, 1> fields = {std::as_bytes(std::span(x))};
    made->set(i, i, fields);
  }
  return made;
}

struct Epoch {
  std::vector<std::vector<std::int64_t>> ids;  // of each step
  std::vector<std::int64_t> widths;            // padded lengths
  std::int64_t padded = 0;                     // numbers in batches
};

Epoch run_epoch(ShareIterator& iterator) {
  Epoch epoch;
  for (std::int64_t step = 0; step < iterator.steps_per_epoch(); ++step) {
    const Batch batch = iterator.next();
    epoch.ids.emplace_back(batch.ids().begin(), batch.ids().end());
    epoch.widths.push_back(batch["x"].shape()[1]);
    epoch.padded += batch["x"].count();
  }
  return epoch;
}

ShareIterator iterator_of(int ranks, int rank, int shards, std::int64_t bucket_steps) {
  ScatterOptions dealing;
  dealing.shards = shards;
  ShareIteratorOptions options{.global_batch = 30, .shuffle = true, .seed = 3};
  if (bucket_steps > 0) options.buckets = LengthBuckets{"x", bucket_steps};
  return {take_share(sequences(1000), ranks, rank, dealing), options};
}

TEST(LengthBuckets, UseEveryExampleOnceWithLittlePadding) {
  ShareIterator plain = iterator_of(1, 0, 0, 0), sorted = iterator_of(1, 0, 0, 10);
  const Epoch without = run_epoch(plain), first = run_epoch(sorted), second = run_epoch(sorted);
  std::multiset<std::int64_t> seen;
  for (const auto& ids : first.ids) seen.insert(ids.begin(), ids.end());
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_EQ(std::set<std::int64_t>(seen.begin(), seen.end()).size(), 1000U);
  EXPECT_LT(first.padded, 0.65 * static_cast<double>(without.padded));
  EXPECT_NE(first.ids, second.ids) << "the same order in both epochs";
  EXPECT_FALSE(std::ranges::is_sorted(first.widths)) << "from short to long";
  // A step has as many examples as it would have without buckets.
  for (std::size_t step = 0; step < first.ids.size(); ++step)
    EXPECT_EQ(first.ids[step].size(), without.ids[step].size());
}

TEST(LengthBuckets, AlignLongExamplesAcrossRanks) {
  ShareIterator a = iterator_of(2, 0, 0, 12), b = iterator_of(2, 1, 0, 12);
  const Epoch left = run_epoch(a), right = run_epoch(b);
  std::int64_t apart = 0;
  for (std::size_t step = 0; step < left.widths.size(); ++step)
    apart += std::abs(left.widths[step] - right.widths[step]);
  EXPECT_LT(apart, 4 * std::ssize(left.widths));
}

TEST(LengthBuckets, OrderDependsOnlyOnShardsAndResumes) {
  ShareIterator one = iterator_of(1, 0, 2, 7), left = iterator_of(2, 0, 2, 7),
                right = iterator_of(2, 1, 2, 7), later = iterator_of(1, 0, 2, 7);
  const Epoch all = run_epoch(one), a = run_epoch(left), b = run_epoch(right);
  for (std::size_t step = 0; step < all.ids.size(); ++step) {
    std::vector<std::int64_t> both = a.ids[step];
    both.insert(both.end(), b.ids[step].begin(), b.ids[step].end());
    EXPECT_EQ(both, all.ids[step]) << "step " << step;
  }
  later.restore({0, 20});
  const Batch next = later.next();
  EXPECT_EQ(std::vector<std::int64_t>(next.ids().begin(), next.ids().end()), all.ids[20]);
}

}  // namespace
}  // namespace tasuki
