// How batches are dealt to workers, and how measured times change it.
#include "training/workers/batch_split.hpp"

#include <gmock/gmock.h>

#include <numeric>

#include "core/philox.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using Parts = std::vector<std::int64_t>;

Parts split(std::int64_t total, const std::vector<double>& weights) {
  return split_batch(total, weights);
}

TEST(SplitBatch, IsProportional) {
  EXPECT_THAT(split(400, {1, 1}), ElementsAre(200, 200));
  EXPECT_THAT(split(400, {3, 1}), ElementsAre(300, 100));
  EXPECT_THAT(split(400, {0.75, 0.25}), ElementsAre(300, 100));
  EXPECT_THAT(split(400, {1e-3, 3e-3}), ElementsAre(100, 300));
  EXPECT_THAT(split(7, {1}), ElementsAre(7));
}

TEST(SplitBatch, GivesTheRestToTheLargestRemainders) {
  EXPECT_THAT(split(10, {1, 1, 1}), ElementsAre(4, 3, 3));
  EXPECT_THAT(split(11, {1, 1, 1}), ElementsAre(4, 4, 3));
  EXPECT_THAT(split(10, {0.45, 0.28, 0.27}), ElementsAre(4, 3, 3));
  EXPECT_THAT(split(1, {1, 3}), ElementsAre(0, 1));
  EXPECT_THAT(split(0, {1, 1}), ElementsAre(0, 0));
}

TEST(SplitBatch, GivesNothingForZeroWeight) {
  EXPECT_THAT(split(5, {0, 1, 0}), ElementsAre(0, 5, 0));
  EXPECT_THAT(split(3, {1, 0, 1}), ElementsAre(2, 0, 1));
}

TEST(SplitBatch, AddsUpForAnyWeights) {
  RandomStream random(1, 2);
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> weights;
    const auto n = 1 + static_cast<std::size_t>(random.uniform() * 9);
    for (std::size_t worker = 0; worker < n; ++worker) weights.push_back(random.uniform() + 1e-6);
    const auto total = static_cast<std::int64_t>(random.uniform() * 3000);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    const Parts parts = split(total, weights);
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), total);
    for (std::size_t worker = 0; worker < n; ++worker)
      EXPECT_NEAR(static_cast<double>(parts[worker]),
                  weights[worker] / sum * static_cast<double>(total), 1.0);
  }
}

TEST(SplitBatch, RejectsInvalidWeights) {
  EXPECT_THROW(split(4, {0, 0}), Error);
  EXPECT_THROW(split(4, {1, -1}), Error);
  EXPECT_THROW(split(4, {}), Error);
}

// Steps of `total` examples in which worker i takes fixed[i] seconds and each[i] per example;
// returns how often the split changed.
int simulate(BatchSplit& split, int steps, std::int64_t total, const std::vector<double>& each,
             const std::vector<double>& fixed = {0, 0}) {
  int changes = 0;
  for (int step = 0; step < steps; ++step) {
    const Parts parts = split.parts(total);
    std::vector<double> seconds;
    for (std::size_t i = 0; i < parts.size(); ++i)
      seconds.push_back(fixed[i] + each[i] * static_cast<double>(parts[i]));
    changes += split.observe(parts, seconds);
  }
  return changes;
}

TEST(MeasuredSplit, FollowsSpeed) {
  BatchSplit split = BatchSplit::measured(2);
  EXPECT_THAT(split.parts(400), ElementsAre(200, 200));
  EXPECT_EQ(simulate(split, 1000, 400, {1e-4, 2e-4}), 1);
  EXPECT_THAT(split.parts(400), ElementsAre(267, 133));
  EXPECT_EQ(split.text(), "0.667:0.333");
}

TEST(MeasuredSplit, ConvergesForNonlinearTimes) {
  BatchSplit split = BatchSplit::measured(2);
  simulate(split, 3000, 400, {1e-4, 1e-4}, {0, 1e-2});
  // 250 * 1e-4 = 1e-2 + 150 * 1e-4
  EXPECT_NEAR(static_cast<double>(split.parts(400)[0]), 250, 6);
}

TEST(MeasuredSplit, LeavesEqualWorkersAlone) {
  BatchSplit split = BatchSplit::measured(2);
  EXPECT_EQ(simulate(split, 1000, 400, {1e-4, 1.03e-4}), 0);
  EXPECT_THAT(split.weights(), ElementsAre(0.5, 0.5));
}

TEST(MeasuredSplit, IgnoresAFewSlowSteps) {
  BatchSplit split = BatchSplit::measured(2);
  for (int step = 0; step < 400; ++step)
    EXPECT_FALSE(split.observe(Parts{200, 200}, std::vector{step % 5 == 0 ? 1.0 : 0.02, 0.02}));
}

TEST(MeasuredSplit, AdaptsWhenAWorkerSlowsDown) {
  BatchSplit split = BatchSplit::measured(2);
  EXPECT_EQ(simulate(split, 300, 400, {1e-4, 1e-4}), 0);
  EXPECT_EQ(simulate(split, 300, 400, {3e-4, 1e-4}), 1);
  EXPECT_THAT(split.parts(400), ElementsAre(100, 300));
}

TEST(MeasuredSplit, RequestsTimesOnlyWhileMeasuring) {
  BatchSplit split = BatchSplit::measured(2);
  int asked = 0;
  for (int step = 0; step < 219; ++step) {
    asked += split.wants_times();
    split.observe(Parts{200, 200}, std::vector{0.02, 0.02});
  }
  EXPECT_EQ(asked, 16);
}

TEST(MeasuredSplit, IgnoresShortBatches) {
  BatchSplit split = BatchSplit::measured(2);
  for (int epoch = 0; epoch < 40; ++epoch) {
    simulate(split, 3, 400, {1e-4, 1e-4});
    simulate(split, 1, 4, {1e-4, 1e-4}, {0, 1});
  }
  EXPECT_THAT(split.weights(), ElementsAre(0.5, 0.5));
}

TEST(MeasuredSplit, GivesTheSlowestAtLeastOneExample) {
  BatchSplit split = BatchSplit::measured(3);
  split.resume({1e-6, 1, 1});
  EXPECT_THAT(split.parts(100), ElementsAre(1, 49, 50));
  EXPECT_THAT(split.parts(2), ElementsAre(0, 1, 1));
}

TEST(MeasuredSplit, ResumesOnlyMatchingStates) {
  BatchSplit split = BatchSplit::measured(2);
  split.resume({1, 1, 2});
  EXPECT_THAT(split.weights(), ElementsAre(0.5, 0.5));
  split.resume({3, 1});
  EXPECT_THAT(split.weights(), ElementsAre(0.75, 0.25));
  BatchSplit even = BatchSplit::even(2);
  even.resume({3, 1});
  EXPECT_THAT(even.weights(), ElementsAre(0.5, 0.5));
}

TEST(FixedSplit, NeverChanges) {
  BatchSplit split = BatchSplit::fixed({3, 1});
  EXPECT_EQ(simulate(split, 100, 400, {9e-4, 1e-4}), 0);
  EXPECT_THAT(split.parts(400), ElementsAre(300, 100));
  EXPECT_FALSE(split.wants_times());
}

}  // namespace
}  // namespace tasuki
