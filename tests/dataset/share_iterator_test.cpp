// Which examples make up which batch, for any number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <vector>

#include "dataset/iterators/share_iterator.hpp"
#include "examples.hpp"
#include "files.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

// One iterator per rank of a job.
using Ranks = std::vector<std::unique_ptr<ShareIterator>>;

Ranks shuffled_ranks(std::int64_t n, int ranks, std::int64_t batch_size,
                     const ScatterOptions& options = {}, std::uint64_t seed = 5) {
  const std::shared_ptr<const Dataset> dataset = numbered_examples(n);
  Ranks iterators;
  for (int rank = 0; rank < ranks; ++rank)
    iterators.push_back(
        create_shuffled_iterator(take_share(dataset, ranks, rank, options), batch_size, seed));
  return iterators;
}

// The global batches of so many steps, each sorted; checks sizes on the way.
std::vector<std::vector<std::int64_t>> global_batches(const Ranks& ranks, std::int64_t steps) {
  std::vector<std::vector<std::int64_t>> batches;
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<std::int64_t> ids;
    std::set<std::int64_t> announced;
    for (const auto& rank : ranks) {
      const Step taken = take(*rank, 1)[0];
      announced.insert(taken.global_size);
      if (rank->options().global_batch == 0) {
        EXPECT_LE(std::ssize(taken.ids), rank->options().batch_size);
      }
      ids.insert(ids.end(), taken.ids.begin(), taken.ids.end());
    }
    EXPECT_EQ(announced, std::set{std::ssize(ids)});
    std::ranges::sort(ids);
    batches.push_back(std::move(ids));
  }
  return batches;
}

// The same for a global batch that ranks share as evenly as may be.
Ranks ranks_of_global_batch(std::int64_t n, int ranks, std::int64_t global_batch,
                            const ScatterOptions& options = {}) {
  Ranks iterators;
  for (int rank = 0; rank < ranks; ++rank)
    iterators.push_back(std::make_unique<ShareIterator>(
        take_share(numbered_examples(n), ranks, rank, options),
        ShareIteratorOptions{
            .batch_size = 0, .global_batch = global_batch, .shuffle = true, .seed = 5}));
  return iterators;
}

std::vector<std::int64_t> first_numbers(std::int64_t n) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < n; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Batches, ContainEveryExampleOncePerEpoch) {
  for (const std::int64_t n : {1, 2, 3, 7, 64, 1001})
    for (const int ranks : {1, 2, 3, 4})
      for (const bool shuffle : {false, true}) {
        SCOPED_TRACE(fmt::format("{} examples, {} ranks", n, ranks));
        const Ranks iterators = shuffled_ranks(n, ranks, 16, {.shuffle = shuffle, .seed = 3});
        const std::int64_t steps = iterators[0]->steps_per_epoch();
        EXPECT_EQ(steps, (n + 16 * ranks - 1) / (16 * ranks));
        std::vector<std::vector<std::int64_t>> epochs;
        for (int epoch = 0; epoch < 3; ++epoch) {
          std::vector<std::int64_t> ids;
          for (const auto& batch : global_batches(iterators, steps))
            ids.insert(ids.end(), batch.begin(), batch.end());
          std::ranges::sort(ids);
          EXPECT_EQ(ids, first_numbers(n));
          for (const auto& rank : iterators) {
            EXPECT_EQ(rank->state(), (IteratorState{epoch + 1, 0}));
            EXPECT_TRUE(rank->is_new_epoch());
          }
        }
      }
}

TEST(Batches, DoNotDependOnRanksWithFixedShards) {
  for (const std::int64_t n : {1, 11, 12, 13, 500, 1001}) {
    for (const bool shuffle : {false, true}) {
      const ScatterOptions options{.shuffle = shuffle, .seed = 3, .shards = 12};
      const std::int64_t global_batch = 120;
      const std::int64_t steps = 2 * ((n + global_batch - 1) / global_batch);
      const auto expected = global_batches(shuffled_ranks(n, 1, global_batch, options), steps);
      for (const int ranks : {2, 3, 4, 6, 12}) {
        SCOPED_TRACE(fmt::format("{} examples, {} ranks", n, ranks));
        EXPECT_EQ(global_batches(shuffled_ranks(n, ranks, global_batch / ranks, options), steps),
                  expected);
      }
    }
  }
}

TEST(Batches, FillTheGlobalBatchOnAnyNumberOfRanks) {
  for (const std::int64_t n : {1, 99, 1000, 1001})
    for (const int ranks : {1, 2, 3, 4, 7})
      for (const std::int64_t global_batch : {7, 16, 100}) {
        SCOPED_TRACE(fmt::format("{} examples, {} ranks, batch {}", n, ranks, global_batch));
        const Ranks iterators = ranks_of_global_batch(n, ranks, global_batch);
        EXPECT_EQ(iterators[0]->steps_per_epoch(), (n + global_batch - 1) / global_batch);
        EXPECT_EQ(iterators[0]->layout().global_batch, global_batch);
        std::vector<std::int64_t> ids;
        for (std::int64_t left = n; left > 0; left -= global_batch) {
          std::int64_t least = n, most = 0;
          for (const auto& rank : iterators) {
            const Step taken = take(*rank, 1)[0];
            EXPECT_EQ(taken.global_size, std::min(left, global_batch));
            least = std::min(least, std::ssize(taken.ids));
            most = std::max(most, std::ssize(taken.ids));
            ids.insert(ids.end(), taken.ids.begin(), taken.ids.end());
          }
          EXPECT_LE(most - least, 1);
        }
        std::ranges::sort(ids);
        EXPECT_EQ(ids, first_numbers(n));
      }
}

TEST(Batches, AllowShardsThatDoNotDivideTheGlobalBatch) {
  const ScatterOptions options{.shuffle = true, .seed = 3, .shards = 12};
  const auto expected = global_batches(ranks_of_global_batch(1001, 1, 100, options), 22);
  for (const int ranks : {2, 3, 4, 6, 12}) {
    SCOPED_TRACE(ranks);
    EXPECT_EQ(global_batches(ranks_of_global_batch(1001, ranks, 100, options), 22), expected);
  }
}

TEST(Batches, TakeAPartFromEveryShard) {
  // In order, shard s of 4 holds [25 s, 25 s + 25); a batch of 8 takes two of each.
  const Ranks one = shuffled_ranks(100, 1, 8, {.shards = 4});
  for (const auto& batch : global_batches(one, 12)) {
    std::vector<int> of_shard(4);
    for (const std::int64_t id : batch) ++of_shard[static_cast<std::size_t>(id / 25)];
    EXPECT_EQ(of_shard, (std::vector<int>{2, 2, 2, 2}));
  }
  EXPECT_EQ(take(*one[0], 1)[0].global_size, 4);
}

TEST(Batches, OrderDependsOnlyOnSeedEpochAndShard) {
  const auto epoch_of = [](int ranks, int rank, std::uint64_t seed, std::int64_t epoch) {
    const Ranks iterators = shuffled_ranks(60, ranks, 60, {}, seed);
    iterators[static_cast<std::size_t>(rank)]->restore({epoch, 0});
    return take(*iterators[static_cast<std::size_t>(rank)], 1)[0].ids;
  };
  const auto base = epoch_of(1, 0, 5, 0);
  EXPECT_EQ(base, epoch_of(1, 0, 5, 0));
  EXPECT_NE(base, epoch_of(1, 0, 6, 0));
  EXPECT_NE(base, epoch_of(1, 0, 5, 1));
  // Two shards of equal length do not go in step.
  auto first = epoch_of(2, 0, 5, 0), second = epoch_of(2, 1, 5, 0);
  for (std::int64_t& id : second) id -= 30;
  EXPECT_NE(first, second);
  EXPECT_TRUE(std::ranges::is_permutation(first, second));
}

TEST(Batches, RepeatExamplesForEqualLengths) {
  for (const std::int64_t n : {1, 2, 9, 10}) {
    const Ranks iterators = shuffled_ranks(n, 4, 2, {.force_equal_length = true});
    std::vector<std::int64_t> ids;
    for (const auto& batch : global_batches(iterators, iterators[0]->steps_per_epoch()))
      ids.insert(ids.end(), batch.begin(), batch.end());
    EXPECT_EQ(std::ssize(ids), 4 * ((n + 3) / 4));
    const std::set<std::int64_t> distinct(ids.begin(), ids.end());
    EXPECT_EQ(std::ssize(distinct), n);
  }
}

TEST(Batches, AreEmptyOnRanksWithoutExamples) {
  const Ranks iterators = shuffled_ranks(2, 4, 3);
  EXPECT_EQ(iterators[3]->steps_per_epoch(), 1);
  const Batch batch = iterators[3]->next();
  EXPECT_EQ(batch.size(), 0);
  EXPECT_EQ(batch["x"].shape(), (Shape{0, 2}));
  EXPECT_EQ(iterators[3]->state(), (IteratorState{1, 0}));
}

// Their number would be missing from the mean over the global batch, differently on each rank.
TEST(Batches, RejectUncountedExamples) {
  const float values[] = {1, 2, 3};
  const std::int32_t labels[] = {0, 1, -1};
  const auto iterator = create_serial_iterator(
      Share::whole(make_dataset(Shape{1}, 2, values, labels)), /*batch_size=*/2);
  EXPECT_EQ(iterator->next().size(), 2);
  expect_error(ErrorKind::data, {"example 2 has label -1", "0 .. 1"}, [&] { iterator->next(); });
}

TEST(Batches, HaveNoStepsForAnEmptyDataset) {
  const Ranks iterators = shuffled_ranks(0, 2, 3);
  EXPECT_EQ(iterators[0]->steps_per_epoch(), 0);
  EXPECT_EQ(iterators[0]->epoch_detail(), 0);
  expect_error(ErrorKind::internal, {"no batch is left"}, [&] { iterators[0]->next(); });
}

TEST(SerialIterator, IteratesOnceInOrderAndRestarts) {
  const auto iterator = create_serial_iterator(Share::whole(numbered_examples(10)), 4);
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(take(*iterator, 3), (std::vector<Step>{{4, 0, {0, 1, 2, 3}, {0, 1}},
                                                     {4, 0, {4, 5, 6, 7}, {0, 2}},
                                                     {2, 0, {8, 9}, {1, 0}}}));
    EXPECT_TRUE(iterator->is_new_epoch());
    EXPECT_EQ(iterator->epoch_detail(), 1);
    expect_error(ErrorKind::internal, {"no batch is left"}, [&] { iterator->next(); });
    EXPECT_EQ(iterator->state(), (IteratorState{1, 0}));
    iterator->restore({});
  }
}

TEST(ShareIterator, ResumesLikeAnUninterruptedRun) {
  const ScatterOptions options{.shuffle = true, .seed = 3, .shards = 6};
  const auto make = [&] {
    return create_shuffled_iterator(take_share(numbered_examples(101), 2, 1, options), 9, 5);
  };
  const auto uninterrupted = make();
  const auto expected = take(*uninterrupted, 20);
  for (std::int64_t stop = 0; stop < 20; ++stop) {
    const auto before = make();
    take(*before, stop);
    const auto after = make();
    after->restore(before->state());
    EXPECT_EQ(after->epoch_detail(), before->epoch_detail());
    EXPECT_EQ(take(*after, 20 - stop), std::vector<Step>(expected.begin() + stop, expected.end()));
  }
}

TEST(ShareIterator, RejectsImpossiblePositions) {
  const auto endless = create_shuffled_iterator(Share::whole(numbered_examples(10)), 4, 0);
  for (const IteratorState& state : {IteratorState{0, 3}, {0, -1}, {-1, 0}})
    expect_error(ErrorKind::data, {std::to_string(state.step)}, [&] { endless->restore(state); });
  const auto serial = create_serial_iterator(Share::whole(numbered_examples(10)), 4);
  serial->restore({1, 0});
  expect_error(ErrorKind::internal, {"no batch is left"}, [&] { serial->next(); });
  for (const IteratorState& state : {IteratorState{1, 1}, {2, 0}})
    expect_error(ErrorKind::data, {std::to_string(state.epoch)}, [&] { serial->restore(state); });
}

// A shard's part of each batch is the same on any number of ranks.
TEST(Batches, MarkShards) {
  const auto parts_of = [](int ranks, std::int64_t step) {
    std::vector<std::vector<std::int64_t>> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      ShareIterator batches(take_share(numbered_examples(50), ranks, rank, {.shards = 12}),
                            {.global_batch = 20, .shuffle = true, .seed = 5, .marks_shards = true});
      Batch batch = batches.next();
      for (std::int64_t i = 0; i < step; ++i) batch = batches.next();
      EXPECT_EQ(std::ssize(batch.shards()), 12 / ranks);
      for (std::size_t i = 0; i < batch.shards().size(); ++i)
        parts.push_back(ids_of(batch.shard(i)));
    }
    return parts;
  };
  for (const std::int64_t step : {0, 1, 2, 3}) {
    const auto expected = parts_of(1, step);
    for (const int ranks : {2, 3, 4, 12}) EXPECT_EQ(parts_of(ranks, step), expected);
  }
  ShareIterator unmarked(take_share(numbered_examples(50), 1, 0, {.shards = 12}),
                         {.batch_size = 9});
  EXPECT_TRUE(unmarked.next().shards().empty());
}

}  // namespace
}  // namespace tasuki
