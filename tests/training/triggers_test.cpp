// When triggers fire, in one run and in a run that is resumed on the way.
#include "training/trigger.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "scripted_updater.hpp"
#include "tests/support/changed_state.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/observe.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::note_iterations;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;
using testing::transfer;
using Iterations = std::vector<std::int64_t>;
using MakeTrigger = std::function<std::unique_ptr<Trigger>()>;

// Iterations in which a trigger fires in a run of `iterations`, stopped and resumed after `cut`.
Iterations firings(std::int64_t steps_per_epoch, std::int64_t iterations, const MakeTrigger& make,
                   std::int64_t cut = 0, const ScriptedUpdater::Script& script = {}) {
  const TemporaryFolder folder;
  Iterations noted;
  const auto trainer_until = [&](std::int64_t end) {
    auto trainer =
        std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(steps_per_epoch, script),
                                  stop_after(1e9, end), folder / "out");
    trainer->extend(note_iterations(noted), {.trigger = make()});
    return trainer;
  };
  const auto first = trainer_until(cut > 0 ? cut : iterations);
  first->run();
  if (cut > 0) {
    const auto second = trainer_until(iterations);
    transfer(*first, *second, folder / "state");
    second->run();
  }
  return noted;
}

TEST(Triggers, RejectNonFiniteBestValueInASnapshot) {
  const auto trigger = on_min_value("main/loss", every(1, Unit::epoch));
  testing::load_with(*trigger, "best", 0.5);
  for (const double value : {std::nan(""), HUGE_VAL})
    EXPECT_THAT(testing::error_everywhere_of(ErrorKind::data,
                                             [&] { testing::load_with(*trigger, "best", value); }),
                HasSubstr("the snapshot's best: expected a number, found "));
}

TEST(Triggers, Intervals) {
  struct Case {
    std::int64_t steps_per_epoch, iterations;
    double period;
    Unit unit;
    Iterations expected;
  };
  const Case cases[] = {
      {5, 7, 1, Unit::iteration, {1, 2, 3, 4, 5, 6, 7}},
      {5, 7, 3, Unit::iteration, {3, 6}},
      {5, 7, 2.5, Unit::iteration, {3, 5}},
      {3, 10, 1, Unit::epoch, {3, 6, 9}},
      {3, 13, 2, Unit::epoch, {6, 12}},
      {3, 10, 0.5, Unit::epoch, {2, 3, 5, 6, 8, 9}},
      {10, 10, 0.1, Unit::epoch, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
      {10, 30, 0.3, Unit::epoch, {3, 6, 9, 12, 15, 18, 21, 24, 27, 30}},
      {4, 12, 1.5, Unit::epoch, {6, 12}},
      {2, 4, 0.1, Unit::epoch, {1, 2, 3, 4}},
      {600, 1200, 1.0 / 3, Unit::epoch, {200, 400, 600, 800, 1000, 1200}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(fmt::format("every {} {} of {} steps", c.period,
                             c.unit == Unit::epoch ? "epochs" : "iterations", c.steps_per_epoch));
    const auto make = [&] { return every(c.period, c.unit); };
    EXPECT_EQ(firings(c.steps_per_epoch, c.iterations, make), c.expected);
    for (const std::int64_t cut : {1, 3})
      EXPECT_EQ(firings(c.steps_per_epoch, c.iterations, make, cut), c.expected);
  }
}

TEST(Triggers, Once) {
  EXPECT_THAT(firings(3, 9, once), ElementsAre(1));
  EXPECT_THAT(firings(3, 9, once, 4), ElementsAre(1));
}

TEST(Triggers, Points) {
  EXPECT_THAT(firings(3, 12, [] { return at({2, 7, 100}, Unit::iteration); }), ElementsAre(2, 7));
  EXPECT_THAT(firings(4, 12, [] { return at({2, 0.5}, Unit::epoch); }), ElementsAre(2, 8));
  EXPECT_THAT(firings(
                  10, 20,
                  [] {
                    return at({0.3, 1.7}, Unit::epoch);
                  },
                  5),
              ElementsAre(3, 17));
}

TEST(Triggers, StopAfterEpochsOrIterations) {
  struct Case {
    double epochs;
    std::optional<std::int64_t> iterations;
    std::int64_t expected;
  };
  for (const Case& c : {Case{2, std::nullopt, 10}, Case{2, 7, 7}, Case{2, 70, 10},
                        Case{0.5, std::nullopt, 3}, Case{0, std::nullopt, 0}, Case{1, 0, 0}}) {
    const TemporaryFolder folder;
    Trainer trainer(std::make_unique<ScriptedUpdater>(5), stop_after(c.epochs, c.iterations),
                    folder / "out");
    trainer.run();
    EXPECT_EQ(trainer.updater().iteration(), c.expected);
    trainer.run();  // over already
    EXPECT_EQ(trainer.updater().iteration(), c.expected);
  }
}

TEST(Triggers, BestValuesUseMeansBetweenChecks) {
  // Two iterations a check: means 3, 2.5, 4, 2, 2, nothing, 1.
  const std::vector<double> values{2, 4, 2, 3, 4, 4, 1, 3, 2, 2, -1, -1, 1, 1};
  const auto script = [&](std::int64_t iteration, Observation& observation) {
    const double value = values[static_cast<std::size_t>(iteration - 1)];
    if (value > 0) observation.set("x", value);
  };
  const auto smallest = [] { return on_min_value("x", every(1, Unit::epoch)); };
  const auto largest = [] { return on_max_value("x", every(1, Unit::epoch)); };
  for (const std::int64_t cut : {0, 1, 2, 5, 8}) {
    EXPECT_THAT(firings(2, 14, smallest, cut, script), ElementsAre(2, 4, 8, 14)) << cut;
    EXPECT_THAT(firings(2, 14, largest, cut, script), ElementsAre(2, 6)) << cut;
  }
}

TEST(Triggers, NanIsNeverTheBest) {
  const auto script = [](std::int64_t iteration, Observation& observation) {
    observation.set("x", iteration < 3 ? std::nan("") : 1.0);
  };
  EXPECT_THAT(firings(
                  1, 5, [] { return on_min_value("x"); }, 0, script),
              ElementsAre(3));
}

// Iteration after which early stopping ends a run with these values, one a check; with `cut` of a
// run that goes on from what another one saved after that many.
std::int64_t stopped_at(const EarlyStopping& options, const std::vector<double>& values,
                        std::int64_t cut = 0) {
  const TemporaryFolder folder;
  const auto script = [&](std::int64_t iteration, Observation& observation) {
    observation.set(options.monitor, values[static_cast<std::size_t>(iteration - 1)]);
  };
  const auto make = [&] {
    return std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(1, script),
                                     early_stopping(options), folder / "out");
  };
  const auto trainer = make();
  if (cut > 0) {
    const auto interrupted = make();
    const auto save = [&](Trainer& running) {
      transfer(running, *trainer, folder / "state");
      fail(ErrorKind::io, "interrupted");
    };
    interrupted->extend(make_extension("save", save, Extension::priority_snapshot),
                        {.trigger = at({static_cast<double>(cut)}, Unit::iteration)});
    EXPECT_THAT(error_of([&] { interrupted->run(); }), HasSubstr("interrupted"));
  }
  trainer->run();
  return trainer->updater().iteration();
}

TEST(Triggers, EarlyStopping) {
  const std::vector<double> losses{5, 4, 4.5, 3, 3.1, 3, 3.2, 1, 1, 1, 1, 1};
  EXPECT_EQ(stopped_at({.monitor = "main/loss", .patience = 3}, losses), 7);
  EXPECT_EQ(stopped_at({.monitor = "main/loss", .patience = 4}, losses), 12);
  EXPECT_EQ(stopped_at({.monitor = "main/loss", .patience = 1}, losses), 3);
  EXPECT_EQ(stopped_at({.monitor = "main/loss", .patience = 4, .max_epochs = 5}, losses), 5);
  EXPECT_EQ(stopped_at({.monitor = "main/loss", .patience = 4, .max_iterations = 6}, losses), 6);
  // Accuracy grows; the same values as a loss would have been worse each time.
  const std::vector<double> accuracies{0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.2, 0.1};
  EXPECT_EQ(stopped_at({.monitor = "validation/main/accuracy"}, accuracies), 7);
  EXPECT_EQ(stopped_at({.monitor = "x", .mode = EarlyStopping::Mode::max}, accuracies), 7);
  EXPECT_EQ(stopped_at({.monitor = "x"}, accuracies), 4);
}

TEST(Triggers, EarlyStoppingKeepsCountWhenResumed) {
  const std::vector<double> losses{5, 4, 4.5, 3, 3.1, 3, 3.2, 1, 1, 1, 1, 1};
  for (std::int64_t cut = 1; cut < 7; ++cut)
    EXPECT_EQ(stopped_at({.monitor = "main/loss", .patience = 3}, losses, cut), 7) << cut;
}

TEST(Triggers, EarlyStoppingEndsTheRunForGood) {
  const TemporaryFolder folder;
  const auto script = [](std::int64_t, Observation& observation) { observation.set("x", 1); };
  const auto make = [&] {
    return std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(1, script),
                                     early_stopping({.monitor = "x", .patience = 2}),
                                     folder / "out");
  };
  const auto ended = make(), resumed = make();
  ended->run();
  EXPECT_EQ(ended->updater().iteration(), 3);
  transfer(*ended, *resumed, folder / "state");
  for (Trainer* const again : {ended.get(), resumed.get()}) {
    again->run();
    EXPECT_EQ(again->updater().iteration(), 3);
  }
}

TEST(Triggers, EarlyStoppingNamesUnobservedKey) {
  const TemporaryFolder folder;
  const auto script = [](std::int64_t, Observation& observation) {
    observation.set("main/loss", 1);
  };
  Trainer trainer(std::make_unique<ScriptedUpdater>(20, script),
                  early_stopping({.monitor = "main/lost"}), folder / "out");
  trainer.extend(std::make_unique<Snapshot>());
  trainer.extend(observe_value("other", [](Trainer&) { return 1.0; }));
  EXPECT_EQ(error_of([&] { trainer.run(); }),
            "early stopping watches \"main/lost\", which was not observed up to iteration 1 (there "
            "are: main/loss)");
  EXPECT_EQ(trainer.updater().iteration(), 1);
  EXPECT_FALSE(newest_snapshot(folder / "out"));
}

// What an extension observes that has not run yet is not known before.
TEST(Triggers, EarlyStoppingSavesBeforeNamingMissingKey) {
  const TemporaryFolder folder;
  Trainer trainer(std::make_unique<ScriptedUpdater>(2), early_stopping({.monitor = "mine/lost"}),
                  folder / "out");
  trainer.extend(
      make_extension("mine", [](Trainer& running) { running.observation().set("mine/loss", 1); }),
      {.trigger = every(2, Unit::epoch)});
  trainer.extend(std::make_unique<Snapshot>(), {.trigger = at({}, Unit::epoch)});
  EXPECT_EQ(error_of([&] { trainer.run(); }),
            "early stopping watches \"mine/lost\", which was not observed up to iteration 4 (there "
            "are: mine/loss); the snapshot is " +
                (folder / "out/snapshot_iter_4").string());
  EXPECT_EQ(trainer.updater().iteration(), 4);
  EXPECT_TRUE(std::filesystem::exists(folder / "out/snapshot_iter_4"));
}

TEST(Triggers, EarlyStoppingWaitsForInfrequentEvaluators) {
  const TemporaryFolder folder;
  Trainer trainer(std::make_unique<ScriptedUpdater>(2),
                  early_stopping({.monitor = "mine/loss", .patience = 2}), folder / "out");
  trainer.extend(
      make_extension("mine", [](Trainer& running) { running.observation().set("mine/loss", 1); }),
      {.trigger = every(3, Unit::epoch)});
  trainer.run();
  EXPECT_EQ(trainer.updater().iteration(), 18);  // the third evaluation
}

TEST(Triggers, CountSeconds) {
  const auto script = [](std::int64_t, Observation&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  const Iterations fired = firings(
      10, 60, [] { return every_seconds(0.03); }, 0, script);
  EXPECT_GE(fired.size(), 2U);  // 0.12 s or more in all
  EXPECT_LT(fired.size(), 30U);
  EXPECT_THAT(firings(
                  10, 20, [] { return every_seconds(1e6); }, 0, script),
              IsEmpty());
}

TEST(Triggers, RejectImpossiblePeriods) {
  for (const double period : {0.0, -1.0, std::nan("")}) {
    EXPECT_THAT(error_of([&] { every(period, Unit::epoch); }), HasSubstr("must be positive"));
    EXPECT_THAT(error_of([&] { every_seconds(period); }), HasSubstr("must be positive"));
  }
}

}  // namespace
}  // namespace tasuki
