// Hyper-parameters that change in the course of a run.
#include "training/extensions/shift.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "models/mlp.hpp"
#include "scripted_updater.hpp"
#include "tests/support/changed_state.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/observe.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;
using testing::transfer;

using MakeShift = std::function<std::unique_ptr<Shift>()>;

// A trainer of a small model, with a shift or without, that notes the learning rate of each
// iteration.
struct Run {
  Run(const MakeShift& make, double lr, std::int64_t end, std::vector<double>& seen)
      : model(2, 2, 2), optimizer(create_optimizer("sgd")) {
    optimizer->set("lr", lr);
    model.initialize(0);
    optimizer->setup(model);
    const auto note = [this, &seen](std::int64_t, Observation&) {
      seen.push_back(optimizer->get("lr"));
    };
    trainer = std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(2, note, optimizer.get()),
                                        stop_after(1e9, end), folder / "out");
    if (make) trainer->extend(make());
  }

  TemporaryFolder folder;
  MLP model;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<Trainer> trainer;
};

// The rates of a run that starts at 0.8; with `cut` of one that is resumed after that many
// iterations, by a program that asks for another rate: the schedule goes on from the old one.
std::vector<double> rates(const MakeShift& make, std::int64_t iterations, std::int64_t cut = 0) {
  std::vector<double> seen;
  if (cut == 0) {
    Run(make, 0.8, iterations, seen).trainer->run();
    return seen;
  }
  Run first(make, 0.8, cut, seen);
  first.trainer->run();
  Run second(make, 0.123, iterations, seen);
  transfer(*first.trainer, *second.trainer, first.folder / "state");
  second.trainer->run();
  return seen;
}

void expect_rates(const MakeShift& make, const std::vector<double>& expected) {
  const auto iterations = static_cast<std::int64_t>(expected.size());
  const std::vector<double> whole = rates(make, iterations);
  ASSERT_EQ(whole.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(whole[i], expected[i], 1e-12) << "iteration " << i + 1;
  for (const std::int64_t cut : {1, 3}) EXPECT_EQ(rates(make, iterations, cut), whole) << cut;
}

TEST(Shifts, Exponential) {
  expect_rates([] { return exponential_shift("lr", 0.5); }, {0.8, 0.4, 0.2, 0.1, 0.05});
  expect_rates([] { return exponential_shift("lr", 0.5, 1.0, 0.2); }, {1, 0.5, 0.25, 0.2, 0.2});
  expect_rates([] { return exponential_shift("lr", 2, std::nullopt, 3.0); }, {0.8, 1.6, 3, 3});
}

TEST(Shifts, Linear) {
  expect_rates([] { return linear_shift("lr", 1, 0.2, 1, 5); }, {1, 1, 0.8, 0.6, 0.4, 0.2, 0.2});
}

TEST(Shifts, Step) {
  expect_rates([] { return step_shift("lr", 0.5, 2); }, {0.8, 0.8, 0.4, 0.4, 0.2, 0.2});
  expect_rates([] { return step_shift("lr", 0.1, 1, 1.0, 0.05); }, {1, 0.1, 0.05, 0.05});
}

TEST(Shifts, Warmup) {
  expect_rates([] { return warmup_shift("lr", 0.1, 4); }, {0.1, 0.275, 0.45, 0.625, 0.8, 0.8});
  expect_rates([] { return warmup_shift("lr", 0.5, 1, 2.0); }, {0.5, 2, 2, 2});
}

TEST(Shifts, ScheduleOfWarmupAndDrops) {
  expect_rates(
      [] {
        return scheduled_shift("lr", {4, {6, 8}, 0.5});
      },
      {0.2, 0.4, 0.6, 0.8, 0.8, 0.8, 0.4, 0.4, 0.2, 0.2});
  // A drop while the rate still rises counts at once.
  expect_rates([] { return scheduled_shift("lr", {4, {2}, 0.5}); }, {0.2, 0.4, 0.3, 0.4, 0.4});
  expect_rates([] { return scheduled_shift("lr", {}); }, {0.8, 0.8, 0.8, 0.8});
}

TEST(Shifts, ScheduleThatDecays) {
  using Decay = RateSchedule::Decay;
  const auto decays = [](Decay decay, std::int64_t warmup, double power) {
    return [=] {
      return scheduled_shift(
          "lr", {.warmup = warmup, .drops = {}, .decay = decay, .length = 6, .power = power});
    };
  };
  const auto cosine = [](double x) { return 0.4 * (1 + std::cos(std::acos(-1) * x)); };
  expect_rates(decays(Decay::cosine, 0, 1),
               {0.8, cosine(1. / 6), cosine(2. / 6), 0.4, cosine(4. / 6), cosine(5. / 6), 0, 0});
  expect_rates(decays(Decay::cosine, 2, 1), {0.4, 0.8, 0.8, cosine(0.25), 0.4, cosine(0.75), 0, 0});
  expect_rates(decays(Decay::polynomial, 2, 1), {0.4, 0.8, 0.8, 0.6, 0.4, 0.2, 0});
  expect_rates(decays(Decay::polynomial, 2, 2), {0.4, 0.8, 0.8, 0.45, 0.2, 0.05, 0});
  // Longer than the run.
  expect_rates(decays(Decay::cosine, 8, 1), {0.1, 0.2, 0.3, 0.4, 0.5, 0.6});
}

// The rates of four iterations after `cut` others in which there was no such shift.
std::vector<double> rates_of_late_shift(std::int64_t cut, std::unique_ptr<Trigger> trigger) {
  std::vector<double> seen;
  Run first(nullptr, 0.8, cut, seen);
  first.trainer->run();
  seen.clear();
  Run second(nullptr, 0.8, cut + 4, seen);
  second.trainer->extend(exponential_shift("lr", 0.5), {.trigger = std::move(trigger)});
  transfer(*first.trainer, *second.trainer, first.folder / "state");
  second.trainer->run();
  return seen;
}

TEST(Shifts, ActFromTheStartInAResumedRun) {
  EXPECT_THAT(rates_of_late_shift(2, every(1, Unit::iteration)),
              ElementsAre(0.2, 0.1, 0.05, 0.025));
  EXPECT_THAT(rates_of_late_shift(3, every(1, Unit::epoch)), ElementsAre(0.4, 0.2, 0.2, 0.1));
  EXPECT_THAT(rates_of_late_shift(2, at({1}, Unit::epoch)), ElementsAre(0.4, 0.4, 0.4, 0.4));
  struct Always : Trigger {
    bool fires(Trainer&) override { return true; }
  };
  EXPECT_THAT(error_of([&] { rates_of_late_shift(2, std::make_unique<Always>()); }),
              HasSubstr("ExponentialShift is not in the snapshot"));
}

TEST(Shifts, RejectNonFiniteStartInASnapshot) {
  const auto shift = exponential_shift("lr", 0.5);
  testing::load_with(*shift, "initial", 0.25);
  EXPECT_EQ(shift->initial(), 0.25);
  EXPECT_THAT(testing::error_everywhere_of(
                  ErrorKind::data, [&] { testing::load_with(*shift, "initial", HUGE_VAL); }),
              HasSubstr("the snapshot's ExponentialShift: expected a number at the start"));
}

TEST(Shifts, RejectInvalidSettings) {
  EXPECT_THAT(error_of([] { exponential_shift("lr", -0.5); }), HasSubstr("-0.5"));
  EXPECT_THAT(error_of([] { linear_shift("lr", 1, 2, 5, 5); }), HasSubstr("not at 5"));
  EXPECT_THAT(error_of([] { step_shift("lr", 0.5, 0); }), HasSubstr("positive"));
  EXPECT_THAT(error_of([] { warmup_shift("lr", 0.5, 0); }), HasSubstr("at least one"));
  EXPECT_THAT(error_of([] { scheduled_shift("lr", {0, {}, -1}); }), HasSubstr("gamma"));
  const auto cosine_of = [](std::int64_t length, double power) {
    scheduled_shift(
        "lr",
        {.drops = {}, .decay = RateSchedule::Decay::cosine, .length = length, .power = power});
  };
  EXPECT_THAT(error_of([&] { cosine_of(0, 1); }), HasSubstr("at least one iteration, not 0"));
  EXPECT_THAT(error_of([&] { cosine_of(1, -2); }), HasSubstr("power"));
  EXPECT_THAT(error_of([] { rates([] { return step_shift("speed", 0.5, 1); }, 2); }),
              HasSubstr("speed"));
}

// A schedule that runs before it, too, is about the next update.
TEST(Observe, ReportsLastLearningRateAndOwnValues) {
  for (const std::string name : {"adam", "adadelta"}) {
    SCOPED_TRACE(name);
    const TemporaryFolder folder;
    MLP model(2, 2, 2);
    model.initialize(0);
    const auto optimizer = create_optimizer(name);
    optimizer->setup(model);
    const auto update = [&](std::int64_t, Observation&) {
      StepScope step;
      optimizer->backward(optimizer->forward({}, 0), 0);
      optimizer->exchange();
      optimizer->update(1);  // another rank's
      step.succeeded();
    };
    Trainer trainer(std::make_unique<ScriptedUpdater>(2, update, optimizer.get()), stop_after(1),
                    folder / "out");
    if (name == "adam")
      trainer.extend(exponential_shift("alpha", 0.5), {.priority = Extension::priority_writer + 1});
    trainer.extend(observe_lr());
    trainer.extend(
        observe_value("twice", [](Trainer& t) { return 2.0 * t.updater().iteration(); }));
    trainer.run();
    EXPECT_EQ(trainer.observation().mean("twice"), 4.0);
    if (name == "adam") {
      EXPECT_EQ(optimizer->get("alpha"), 0.25e-3);
      EXPECT_DOUBLE_EQ(trainer.observation().mean("lr").value(),
                       0.5e-3 * std::sqrt(1 - 0.999 * 0.999) / (1 - 0.9 * 0.9));
      EXPECT_EQ(trainer.observation().values().at("lr").reach, Reach::job);
    } else {
      EXPECT_FALSE(trainer.observation().values().contains("lr"));
    }
  }
}

}  // namespace
}  // namespace tasuki
