// Several workers in one process train as one does.
#include "training/workers/parallel_updater.hpp"

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <numeric>
#include <thread>

#include "core/stopwatch.hpp"
#include "nn/connection.hpp"
#include "parallel_run.hpp"
#include "tensor/late_values.hpp"
#include "tests/optimizer/own_rules.hpp"
#include "tests/support/errors.hpp"

namespace tasuki::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

void decay_and_clip(Optimizer& optimizer) {
  optimizer.add_hook(weight_decay(1e-3));
  optimizer.add_hook(gradient_clipping(0.5));
}

void expect_same_training(BatchSplit split, const ParallelRun::Options& options) {
  PlainRun plain(options);
  ParallelRun parallel(std::move(split), options);
  const Seen expected = train(*plain.updater, 100), found = train(*parallel.updater, 100);
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    ASSERT_NEAR(found.losses[i], expected.losses[i], 1e-4) << "iteration " << i;
  // It did learn, so that equal losses say something.
  const auto mean = [&](int begin, int end) {
    return std::accumulate(expected.losses.begin() + begin, expected.losses.begin() + end, 0.0) /
           (end - begin);
  };
  EXPECT_LT(mean(80, 100), 0.97 * mean(0, 20));
  EXPECT_EQ(parallel.optimizer->t(), 100);
}

TEST(ParallelUpdater, RejectsLayersWithoutAShape) {
  ParallelRun::Options options;
  options.make = [](std::uint64_t seed) { return small_model(8, seed, /*lazy=*/true); };
  EXPECT_THAT(error_of([&] { ParallelRun(BatchSplit::even(2), options); }),
              HasSubstr("predictor/l1/W has no shape yet"));
}

TEST(ParallelUpdater, TrainsWithTwoWorkersAsWithOne) {
  expect_same_training(BatchSplit::even(2), {});
}

TEST(ParallelUpdater, WeightsUnevenPartsByExamples) {
  expect_same_training(BatchSplit::fixed({3, 1}), {});
  expect_same_training(BatchSplit::fixed({1, 7, 2}), {});
}

TEST(ParallelUpdater, IncludesWorkersWithoutExamples) {
  // The last batch of an epoch has one example for three workers.
  expect_same_training(BatchSplit::even(3), {.examples = 97, .batch = 6});
  expect_same_training(BatchSplit::fixed({1, 0}), {});
}

TEST(ParallelUpdater, CountsAllWorkersExamplesWithoutGlobalSize) {
  expect_same_training(BatchSplit::fixed({1, 3}), {.knows_global_batches = false});
  expect_same_training(BatchSplit::fixed({0, 1}), {.knows_global_batches = false});
}

TEST(ParallelUpdater, CopiesBackSeparateWeights) {
  expect_same_training(BatchSplit::even(3), {.weights = ParallelUpdater::Weights::copied});
}

TEST(ParallelUpdater, ShowsHooksTheWholeGradient) {
  expect_same_training(BatchSplit::even(2), {.configure = decay_and_clip});
}

TEST(ParallelUpdater, CombinesGroupsFrozenParametersAndHooks) {
  ParallelRun::Options options;
  options.configure = [](Optimizer& optimizer) {
    optimizer.freeze("predictor/l1/b");
    optimizer.add_hook(gradient_clipping(2));
    optimizer.add_hook(gradient_lars(1e-2, 1e-3));
    optimizer.add_group({.pattern = "predictor/l2/*", .rate_factor = 2, .weight_decay = 0.01});
    optimizer.add_group({.pattern = "**", .weight_decay = 0, .is_1d_only = true});
  };
  PlainRun plain(options);
  const std::vector<float> expected = weights_after(plain, 10);
  for (const auto kind :
       {ParallelUpdater::Weights::as_devices_need, ParallelUpdater::Weights::copied}) {
    options.weights = kind;
    ParallelRun one(BatchSplit::even(1), options), three(BatchSplit::even(3), options);
    EXPECT_EQ(weights_after(one, 10), expected);
    const std::vector<float> found = weights_after(three, 10);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5);
  }
}

TEST(ParallelUpdater, FollowsFrozenParameters) {
  const auto weights = [](auto& run) {
    train(*run.updater, 5);
    run.optimizer->freeze("predictor/l1/*");
    train(*run.updater, 5);
    run.optimizer->unfreeze("**");
    return weights_after(run, 5);
  };
  PlainRun plain;
  const std::vector<float> expected = weights(plain);
  for (const auto kind :
       {ParallelUpdater::Weights::as_devices_need, ParallelUpdater::Weights::copied}) {
    ParallelRun::Options options;
    options.weights = kind;
    ParallelRun one(BatchSplit::even(1), options), three(BatchSplit::even(3), options);
    EXPECT_EQ(weights(one), expected);
    const std::vector<float> found = weights(three);
    for (std::size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5);
  }
}

TEST(ParallelUpdater, AppliesOwnRules) {
  const auto weights = [](const ParallelRun::Options& options) {
    ParallelRun run(BatchSplit::fixed({2, 1, 1}), options);
    return weights_after(run, 20);
  };
  ParallelRun::Options options;
  options.configure = decay_and_clip;
  const auto expected = weights(options);
  options.optimizer = [] {
    return std::make_unique<Optimizer>(std::make_shared<testing::OwnMomentum>());
  };
  EXPECT_EQ(weights(options), expected);
}

TEST(ParallelUpdater, GivesWorkersTheirOwnThreads) {
  expect_same_training(BatchSplit::even(2), {.threads = 2});
}

TEST(ParallelUpdater, IsBitIdenticalWithOneWorker) {
  PlainRun plain;
  ParallelRun parallel(BatchSplit::even(1));
  EXPECT_EQ(train(*parallel.updater, 50).losses, train(*plain.updater, 50).losses);
}

TEST(ParallelUpdater, ReportsAccuracyOfAllParts) {
  PlainRun plain;
  ParallelRun parallel(BatchSplit::fixed({1, 2}));
  EXPECT_EQ(train(*parallel.updater, 5).accuracies, train(*plain.updater, 5).accuracies);
}

class ParallelTimes : public ::testing::TestWithParam<ParallelUpdater::Weights> {};

INSTANTIATE_TEST_SUITE_P(Weights, ParallelTimes,
                         ::testing::Values(ParallelUpdater::Weights::as_devices_need,
                                           ParallelUpdater::Weights::copied),
                         [](const auto& info) {
                           return info.param == ParallelUpdater::Weights::copied ? "copied"
                                                                                 : "shared";
                         });

TEST_P(ParallelTimes, ShowTheSlowestWorker) {
  constexpr int steps = 4;
  static constexpr auto pause = std::chrono::milliseconds(20);
  ParallelRun::Options options;
  options.weights = GetParam();
  options.loss = [](std::size_t worker, Classifier& model) -> LossFunction {
    return [worker, loss = classification_loss(model)](const Batch& batch, Observation& report) {
      if (worker == 1) std::this_thread::sleep_for(pause);
      return loss(batch, report);
    };
  };
  ParallelRun run(BatchSplit::even(3), options);
  Stopwatch watch;
  train(*run.updater, steps);
  const double passed = watch.lap();
  const RankTimes times = run.updater->times();
  ASSERT_EQ(times.size(), 3u);
  for (const StepTimes& worker : times) {
    EXPECT_EQ(worker.steps, steps);
    EXPECT_GT(worker.input, 0);
    EXPECT_GT(worker.compute(), 0);
    EXPECT_LE(worker.total(), passed);
  }
  EXPECT_GE(times[1].compute(), std::chrono::duration<double>(steps * pause).count());
  for (const std::size_t other : {0, 2}) {
    EXPECT_GT(times[1].compute(), times[other].compute());
    EXPECT_LT(times[1].exchange, times[other].exchange);
  }
}

TEST(ParallelUpdater, IsBitIdenticalForTheSameSplit) {
  ParallelRun a(BatchSplit::fixed({2, 3})), b(BatchSplit::fixed({2, 3}));
  EXPECT_EQ(train(*a.updater, 50).losses, train(*b.updater, 50).losses);
}

TEST(ParallelUpdater, NamesFailingWorkerAndEndsTheStep) {
  ParallelRun::Options options;
  options.loss = [](std::size_t worker, Classifier& model) -> LossFunction {
    if (worker != 1) return classification_loss(model);
    return [](const Batch&, Observation&) -> Variable { fail(ErrorKind::data, "out of luck"); };
  };
  ParallelRun run(BatchSplit::even(3), options);
  for (int attempt = 0; attempt < 2; ++attempt)
    EXPECT_EQ(error_of([&] { train(*run.updater, 1); }), "worker 1 (cpu): out of luck");
}

// As a layer counts steps: the number is drawn when the step begins.
struct StepCount {
  std::int64_t steps = 0;
  LateValues<std::int64_t> number{[this](std::span<std::int64_t> out) { out[0] = steps; }};
  AfterStep counted{[this] { ++steps; }};
};

TEST(ParallelUpdater, CountsStepsOnceAllWorkersHaveSucceeded) {
  std::array<StepCount, 3> counts;
  std::array<std::vector<std::int64_t>, 3> drawn;
  std::size_t failing = counts.size();
  // Each worker has examples in each step.
  ParallelRun::Options options{.examples = 96, .batch = 24};
  options.loss = [&](std::size_t worker, Classifier& model) -> LossFunction {
    return [&, worker, loss = classification_loss(model)](const Batch& batch, Observation& report) {
      drawn[worker].push_back(counts[worker].number.on_host(1)[0]);
      counts[worker].counted.request();
      if (worker == failing) fail(ErrorKind::data, "out of luck");
      return loss(batch, report);
    };
  };
  ParallelRun run(BatchSplit::even(3), options);
  train(*run.updater, 2);
  for (failing = 0; failing < counts.size(); ++failing)
    EXPECT_THAT(error_of([&] { train(*run.updater, 1); }), HasSubstr("out of luck"));
  train(*run.updater, 1);
  for (const auto& numbers : drawn) EXPECT_THAT(numbers, ElementsAre(0, 1, 2, 2, 2, 2));
  for (const StepCount& count : counts) EXPECT_EQ(count.steps, 3);
}

TEST(ParallelUpdater, FindsUnregisteredLayersInTheFirstUpdate) {
  Linear forgotten(12, 12);
  ParallelRun::Options options;
  options.loss = [&](std::size_t, Classifier& model) -> LossFunction {
    return [&](const Batch& batch, Observation&) {
      return model(forgotten(Variable(batch["x"])), batch["t"]).loss;
    };
  };
  ParallelRun run(BatchSplit::even(2), options);
  EXPECT_THAT(
      error_of([&] { train(*run.updater, 1); }),
      HasSubstr("the loss depends on a parameter W (12x12) of a layer Linear that the model "
                "does not have"));
}

TEST(ParallelUpdater, RejectsDifferentReplicas) {
  ParallelRun::Options options;
  options.make = [](std::uint64_t seed) { return small_model(seed == 5 ? 8 : 9, seed); };
  EXPECT_THAT(error_of([&] { ParallelRun(BatchSplit::even(2), options); }),
              HasSubstr("a replica has no parameter predictor/l2/W of shape 4x8"));
}

TEST(ParallelUpdater, MeasuresWorkersForTheSplit) {
  // What the split makes of times is tested without a clock.
  ParallelRun run(BatchSplit::measured(2), {.examples = 96, .batch = 24});
  const BatchSplit& split = run.updater->split();
  train(*run.updater, 3);
  EXPECT_TRUE(split.wants_times());
  train(*run.updater, 15);
  EXPECT_TRUE(split.wants_times());
  train(*run.updater, 1);
  EXPECT_FALSE(split.wants_times());
}

}  // namespace
}  // namespace tasuki::testing
