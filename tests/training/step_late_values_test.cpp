// Late values in recorded steps: each step has its own, and a recording is dropped with their
// owner.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/random.hpp"
#include "recorded_steps.hpp"
#include "tensor/backend.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::batch_of;
using testing::device;
using ::testing::HasSubstr;
using testing::is_recording;
using testing::StepRunnerTest;
using testing::values;

// A number that a counter decides, and the counter itself.
struct Ticking {
  double now = 0;
  int draws = 0;
  LateValues<double> value{[this](std::span<double> out) {
    ++draws;
    std::ranges::fill(out, now + 1);
  }};
  AfterStep counted{[this] { ++now; }};

  Tensor next(std::int64_t count = 1) {
    counted.request();
    return value.on(device, count);
  }
};

TEST_F(StepRunnerTest, UsesEachStepsLateValues) {
  for (const GraphMode mode : {GraphMode::off, GraphMode::on}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const auto runner = make(mode);
    Ticking one, other;
    other.now = 100;
    work = [&](const Batch&, Observation& seen) {
      const Tensor sum = Tensor::zeros({}, DType::float64, device);
      backend(device).accumulate_scalar(sum, one.next().reshape({}), 1);
      backend(device).accumulate_scalar(sum, other.next(2).slice(1, 2).reshape({}), 1);
      backend(device).accumulate_scalar(sum, one.next().reshape({}), 1);
      seen.add_sum("first", sum, 1);
    };
    const int n = 9;
    EXPECT_EQ(run(*runner, 4, n), 2 * (n * (n + 1) / 2) + 100 * n + n * (n + 1) / 2);
    EXPECT_EQ(one.now, n);
    EXPECT_EQ(one.draws, n);
    EXPECT_EQ(other.draws, n);
  }
}

TEST_F(StepRunnerTest, RejectsTwoCountsOfLateValuesInAStep) {
  for (const GraphMode mode : {GraphMode::off, GraphMode::automatic, GraphMode::on}) {
    SCOPED_TRACE(static_cast<int>(mode));
    const auto runner = make(mode);
    Ticking ticking;
    work = [&](const Batch&, Observation& seen) {
      ticking.next(1);
      seen.add_sum("first", ticking.next(2).slice(1, 2).reshape({}), 1);
    };
    try {
      run(*runner, 4, 1);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("2 late values were asked for in a step, and 1 before"));
    }
    EXPECT_EQ(ticking.now, 0);
  }
}

// Each in its place, which is used again.
TEST_F(StepRunnerTest, AllowsDifferentCountsOfLateValues) {
  const auto runner = make(GraphMode::off);
  Ticking ticking, other;
  std::set<const void*> places;
  std::int64_t count = 0;
  work = [&](const Batch&, Observation& seen) {
    const Tensor sum = Tensor::zeros({}, DType::float64, device);
    for (Ticking* each : {&ticking, &other, &ticking}) {
      const Tensor found = each->next(each == &ticking ? count : 1);
      backend(device).accumulate_scalar(
          sum, found.slice(found.count() - 1, found.count()).reshape({}), 1);
      places.insert(found.raw());
    }
    seen.add_sum("first", sum, 1);
  };
  double sum = 0;
  for (int step = 1; step <= 100; ++step) {
    count = step % 3 == 0 ? 1 : 7;
    sum += run(*runner, 4, 1);
  }
  EXPECT_EQ(sum, 3 * 5050);
  EXPECT_LE(places.size(), 3U);
}

TEST_F(StepRunnerTest, KeepsRandomNumbersAfterAFailedRecording) {
  const auto runner = make(GraphMode::automatic);
  Ticking ticking;
  work = [&](const Batch&, Observation& seen) {
    seen.add_sum("first", ticking.next().reshape({}), 1);
    if (is_recording()) fail(ErrorKind::unavailable, "the stream is busy");
  };
  EXPECT_EQ(run(*runner, 4, 6), 21);
  EXPECT_EQ(ticking.draws, 6);
}

// Work that fails leaves counters where they were, and nothing that anybody waits for.
TEST_F(StepRunnerTest, DoesNotCountFailedSteps) {
  const auto runner = make(GraphMode::off);
  Ticking ticking;
  bool fails = false;
  work = [&](const Batch&, Observation& seen) {
    seen.add_sum("first", ticking.next().reshape({}), 1);
    if (fails) fail(ErrorKind::data, "out of luck");
  };
  EXPECT_EQ(run(*runner, 4, 2), 3);
  fails = true;
  EXPECT_THROW(run(*runner, 4, 1), Error);
  EXPECT_EQ(ticking.now, 2);
  fails = false;
  EXPECT_EQ(run(*runner, 4, 2), 7);
}

TEST_F(StepRunnerTest, DropsRecordingsWithTheirValuesOwner) {
  const auto runner = make(GraphMode::automatic);
  std::optional<Ticking> ticking(std::in_place);
  work = [&](const Batch&, Observation& seen) {
    ++(is_recording() ? recorded : done);
    seen.add_sum("first", ticking->next().reshape({}), 1);
  };
  EXPECT_EQ(run(*runner, 4, 5), 15);
  ticking.emplace();
  EXPECT_EQ(run(*runner, 4, 5), 15);
  EXPECT_EQ(recorded, 2);
}

TEST_F(StepRunnerTest, DropsRecordingsWithTheirInputs) {
  const auto runner = make(GraphMode::automatic);
  work = [&](const Batch& batch, Observation& seen) {
    ++(is_recording() ? recorded : done);
    const Tensor y = model.forward(Variable(batch["x"])).value();
    seen.add_sum("first", y.reshape({y.count()}).slice(0, 1).reshape({}), 1);
  };
  model.initialize(1);
  const double first = run(*runner, 4, 5);
  EXPECT_EQ(recorded, 1);
  // In place: the recording reads it.
  for (const auto& [path, parameter] : model.parameters()) parameter->value().fill(0.5);
  EXPECT_NE(run(*runner, 4, 5), first);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(done, 3);
  // Elsewhere.
  for (const auto& [path, parameter] : model.parameters()) {
    const auto fresh = [&parameter = parameter] {
      return Tensor::zeros(parameter->shape(), DType::float32, device);
    };
    parameter->move_to(fresh(), fresh());
    parameter->value().fill(2);
  }
  const double moved = run(*runner, 4, 1);
  EXPECT_EQ(moved, 1 * 2 + 2 * 2 + 2);
  EXPECT_EQ(done, 4);
  run(*runner, 4, 3);
  EXPECT_EQ(recorded, 2);
}

// Random functions, and more of them than in the steps before, without an own word on recordings.
TEST_F(StepRunnerTest, GivesTheSameDropoutInRecordedSteps) {
  const auto losses = [this](GraphMode mode) {
    const auto runner = make(mode);
    RandomKeys keys(7);
    std::vector<double> found;
    for (std::int64_t step = 0; step < 8; ++step) {
      const Batch batch = batch_of(30, 1);
      std::vector<std::int64_t> ids(30);
      for (std::int64_t i = 0; i < 30; ++i) ids[static_cast<std::size_t>(i)] = 30 * step + i;
      keys.follow(step / 3, ids);
      Observation seen;
      runner->run(
          batch, seen,
          [&](const Batch& there, Observation& report) {
            const RandomScope random(keys);
            const NoGrad no_grad;
            const Variable dropped = F::dropout(F::dropout(Variable(there["x"]), 0.3F), 0.5F);
            const Tensor labels = Tensor::zeros({30}, DType::int32, device);
            report.add_mean("loss", F::softmax_cross_entropy(dropped, labels).value(), 30);
          },
          "");
      found.push_back(*seen.mean("loss"));
    }
    return found;
  };
  const auto expected = losses(GraphMode::off);
  EXPECT_EQ(losses(GraphMode::on), expected);
  EXPECT_EQ(std::set(expected.begin(), expected.end()).size(), expected.size());
}

}  // namespace
}  // namespace tasuki
