// Reading ahead must not change batches.
#include "dataset/iterators/prefetch_iterator.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "examples.hpp"
#include "files.hpp"
#include "tests/support/forked_child.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

// Examples whose reading takes unlike times, counts itself, and fails where it is told to.
class DifficultDataset final : public Dataset {
 public:
  explicit DifficultDataset(std::int64_t count) : examples_(numbered_examples(count)) {}

  const DatasetHeader& header() const override { return examples_->header(); }
  // Asked for once in each batch.
  FieldArray array(std::size_t field) const override {
    if (field != 0) return {};
    const int now = ++reading_;
    int most = most_at_once;
    while (most < now && !most_at_once.compare_exchange_weak(most, now)) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(batches_read * 37 % 5 * 400));
    --reading_;
    ++batches_read;
    return {};
  }
  void read(std::int64_t i, std::size_t field, FieldWriter& into) const override {
    if (i == fails_at) fail(ErrorKind::io, "example {} cannot be read", i);
    examples_->read(i, field, into);
  }

  std::atomic<std::int64_t> fails_at = -1;
  mutable std::atomic<int> batches_read = 0, most_at_once = 0;

 private:
  std::shared_ptr<InMemoryDataset> examples_;
  mutable std::atomic<int> reading_ = 0;
};

class Prefetch : public ::testing::TestWithParam<std::pair<int, int>> {
 protected:
  std::unique_ptr<ShareIterator> plain() const {
    return create_shuffled_iterator(Share::whole(dataset), 7, 5);
  }
  std::unique_ptr<PrefetchIterator> ahead() const { return ahead_of(plain()); }
  static std::unique_ptr<PrefetchIterator> ahead_of(std::unique_ptr<ShareIterator> inner) {
    return std::make_unique<PrefetchIterator>(std::move(inner), GetParam().first,
                                              GetParam().second);
  }
  std::shared_ptr<DifficultDataset> dataset = std::make_shared<DifficultDataset>(50);
};
INSTANTIATE_TEST_SUITE_P(ThreadsAndDepth, Prefetch,
                         ::testing::Values(std::pair{1, 1}, std::pair{1, 4}, std::pair{3, 2},
                                           std::pair{4, 8}),
                         [](const auto& info) {
                           return fmt::format("{}x{}", info.param.first, info.param.second);
                         });

TEST_P(Prefetch, GivesTheSameBatchesAndStates) {
  EXPECT_EQ(take(*ahead(), 20), take(*plain(), 20));
  EXPECT_EQ(ahead()->steps_per_epoch(), plain()->steps_per_epoch());
}

// Whose workers it has not.
TEST_P(Prefetch, IsNotJoinedInAForkedChild) {
  auto iterator = ahead();
  for (int i = 0; i < 5; ++i) {
    take(*iterator, 3);
    EXPECT_EQ(status_of_child([&] { iterator.reset(); }), 0);
  }
}

TEST_P(Prefetch, RestoresAsIfItDidNotReadAhead) {
  const auto expected = take(*plain(), 30);
  const auto iterator = ahead();
  take(*iterator, 11);
  const IteratorState state = iterator->state();
  EXPECT_EQ(state, expected[10].after);
  take(*iterator, 6);
  iterator->restore(state);
  EXPECT_EQ(take(*iterator, 19), std::vector<Step>(expected.begin() + 11, expected.end()));
  const auto other = ahead();
  other->restore(state);
  EXPECT_EQ(take(*other, 19), std::vector<Step>(expected.begin() + 11, expected.end()));
}

TEST_P(Prefetch, RejectsImpossiblePositionsUnchanged) {
  const auto expected = take(*plain(), 10);
  const auto iterator = ahead();
  take(*iterator, 3);
  expect_error(ErrorKind::data, {"step 99"}, [&] { iterator->restore({0, 99}); });
  EXPECT_EQ(take(*iterator, 7), std::vector<Step>(expected.begin() + 3, expected.end()));
}

TEST_P(Prefetch, ReportsErrorsWithTheirBatchAndContinues) {
  const auto expected = take(*plain(), 20);
  constexpr std::int64_t good = 4;  // of the eight batches of the first epoch
  dataset->fails_at = expected[good].ids[3];
  const auto iterator = ahead();
  EXPECT_EQ(take(*iterator, good), std::vector<Step>(expected.begin(), expected.begin() + good));
  for (int again = 0; again < 2; ++again)
    expect_error(ErrorKind::io, {"cannot be read"}, [&] { iterator->next(); });
  dataset->fails_at = -1;
  EXPECT_EQ(take(*iterator, 20 - good), std::vector<Step>(expected.begin() + good, expected.end()));
}

TEST_P(Prefetch, EndsOneEpochAtTheSamePlace) {
  const auto iterator = ahead_of(create_serial_iterator(Share::whole(dataset), 20));
  for (int pass = 0; pass < 2; ++pass) {
    EXPECT_EQ(take(*iterator, 3).back().ids.size(), 10u);
    expect_error(ErrorKind::internal, {"no batch is left"}, [&] { iterator->next(); });
    iterator->restore({});
  }
}

TEST_P(Prefetch, ReadsAheadAtMostItsDepth) {
  const auto iterator = ahead();
  const int depth = GetParam().second;
  const auto wait_for = [&](int batches) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (dataset->batches_read < batches && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(dataset->batches_read, batches);
  };
  iterator->next();
  wait_for(1 + depth);
  iterator->next();
  wait_for(2 + depth);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset->batches_read, 2 + depth);
  EXPECT_LE(dataset->most_at_once, GetParam().first);
}

TEST_P(Prefetch, ReadsNothingUntilAsked) {
  const auto iterator = ahead();
  iterator->restore({1, 2});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset->batches_read, 0);
  iterator->next();
  iterator->restore({});
  const int before = dataset->batches_read;
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(dataset->batches_read, before);
}

TEST_P(Prefetch, CanBeDestroyedWhileReading) {
  for (int i = 0; i < 20; ++i) {
    const auto iterator = ahead();
    if (i % 2 == 0) iterator->next();
  }
  EXPECT_EQ(dataset.use_count(), 1) << "a worker outlived its iterator";
}

}  // namespace
}  // namespace tasuki
