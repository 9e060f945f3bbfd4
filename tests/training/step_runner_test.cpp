// When steps are recorded and replayed, on a device whose memory the host cannot touch, and which
// of their results the host may read.
#include "training/recording/step_runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorded_steps.hpp"

namespace tasuki {
namespace {

using testing::batch_of;
using testing::device;
using testing::guarded_device_counts;
using ::testing::HasSubstr;
using testing::is_recording;
using testing::StepRunnerTest;
using testing::values;

TEST_F(StepRunnerTest, WarmsUpThenReplaysOneRecording) {
  const auto runner = make(GraphMode::automatic);
  EXPECT_EQ(run(*runner, 100, 10), 55);  // each step is done once, with values of its own
  EXPECT_EQ(done, 3);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(replays, 7);
}

TEST_F(StepRunnerTest, KeepsOneRecordingPerKind) {
  const auto runner = make(GraphMode::on);
  EXPECT_EQ(run(*runner, 100, 5), 15);
  EXPECT_EQ(run(*runner, 50, 5), 15);
  EXPECT_EQ(run(*runner, 7, 1), 1);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(done, 3 + 1 + 1);  // later kinds need less warming up
  EXPECT_EQ(replays, 2 + 4);
  EXPECT_EQ(runner->recordings(), 2);
  EXPECT_EQ(run(*runner, 100, 3), 6);  // after longer and shorter ones
}

TEST_F(StepRunnerTest, RemembersFailureAndRunsTheStep) {
  const auto runner = make(GraphMode::automatic);
  failure = "the stream is busy";
  EXPECT_EQ(run(*runner, 1, 6), 21);
  EXPECT_EQ(run(*runner, 2, 6), 21);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(done, 12);
  EXPECT_EQ(runner->why_not_recorded(), "the stream is busy");
}

TEST_F(StepRunnerTest, RunsStepsOnDevicesThatCannotRecord) {
  const auto runner = make(GraphMode::automatic);
  testing::set_guarded_device_records(false);
  run(*runner, 1, 6);
  testing::set_guarded_device_records(true);
  EXPECT_EQ(done, 6);
  EXPECT_EQ(runner->why_not_recorded(), "the device cannot record");
}

TEST_F(StepRunnerTest, FailsIfRequestedRecordingIsImpossible) {
  const auto runner = make(GraphMode::on);
  failure = "the stream is busy";
  run(*runner, 1, 3);
  try {
    run(*runner, 1, 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::config);
    EXPECT_THAT(error.what(), HasSubstr("the stream is busy"));
  }
  work = [](const Batch&, Observation&) { refuse_recording("a number of the host"); };
  Observation unused;
  EXPECT_THROW(make(GraphMode::on)->run(batch_of(1), unused, work, ""), Error);
}

TEST_F(StepRunnerTest, HandlesDisabledAndForgottenRecordings) {
  const auto off = make(GraphMode::off);
  run(*off, 1, 9);
  EXPECT_EQ(recorded, 0);
  EXPECT_EQ(off->why_not_recorded(), "");

  const auto refused = make(GraphMode::automatic);
  run(*refused, 1, 5);
  const StepRunner::Work counting = work;
  work = [&](const Batch& batch, Observation& seen) {
    counting(batch, seen);
    refuse_recording("a hook computes on the host");
  };
  run(*refused, 2, 1);
  work = counting;
  run(*refused, 1, 4);
  EXPECT_EQ(refused->why_not_recorded(), "a hook computes on the host");
  EXPECT_EQ(replays, 2);
  EXPECT_EQ(done, 9 + 3 + 1 + 4);

  const auto changed = make(GraphMode::automatic);
  run(*changed, 1, 5);
  changed->forget();
  run(*changed, 1, 3);
  EXPECT_EQ(changed->recordings(), 2);
}

TEST_F(StepRunnerTest, DoesNotReplayHostComputedNumbers) {
  const auto runner = make(GraphMode::automatic);
  work = [this](const Batch&, Observation& seen) { seen.add_sum("first", ++done, 1); };
  EXPECT_EQ(run(*runner, 1, 6), 21);
  EXPECT_THAT(runner->why_not_recorded(), HasSubstr("values that the host computes"));
}

// A count of the host beside a sum of the device, and a sum of both.
TEST_F(StepRunnerTest, DoesNotReplayMixedHostAndDeviceNumbers) {
  std::int64_t step = 0;
  const auto one = [] { return Tensor::full({}, 1, DType::float64, device); };
  const std::vector<std::function<void(Observation & seen)>> reports = {
      [&](Observation& seen) { seen.add_sum("first", one(), Tensor::full({}, step)); },
      [&](Observation& seen) {
        seen.add_sum("first", one(), 1);
        seen.add_sum("first", static_cast<double>(step), step - 1);
      },
      [&](Observation& seen) {
        Observation part;
        part.add_sum("value", one(), 1);
        part.add_mean("value", Tensor::full({}, 0), step - 1);
        seen.add(part, "of a part ");
        seen.add_sum("first", one(), 1);
      }};
  for (std::size_t i = 0; i < reports.size(); ++i) {
    SCOPED_TRACE(i);
    const auto runner = make(GraphMode::automatic);
    work = [&](const Batch&, Observation& seen) { reports[i](seen); };
    Observation seen;
    for (step = 1; step <= 9; ++step) runner->run(batch_of(1), seen, work, "");
    const auto& [sum, count, reach] = seen.values().rbegin()->second;
    EXPECT_EQ(sum.value(), i == 1 ? 9 + 45 : 9);
    EXPECT_EQ(count, 45);
    EXPECT_THAT(runner->why_not_recorded(), HasSubstr("values that the host computes"));
  }
}

// Each batch has its own.
TEST_F(StepRunnerTest, DoesNotReplayBatchNumbersReadByTheHost) {
  struct Reader {
    std::string what;
    std::function<std::int64_t(const Batch& batch)> read;
  };
  const Reader readers[] = {
      {"ids", [](const Batch& batch) { return batch.ids()[0]; }},
      {"ids", [](const Batch& batch) { return batch.slice(1, 2).ids()[0] - 1; }},
      {"ids", [](const Batch& batch) { return batch.rows()[1 + 2]; }},
      {"epoch", [](const Batch& batch) { return batch.epoch(); }},
      {"global size", [](const Batch& batch) { return batch.global_size().value_or(0) - 900; }}};
  for (const auto& [what, read] : readers) {
    SCOPED_TRACE(what);
    work = [&, &read = read](const Batch& batch, Observation& seen) {
      seen.add_sum("first",
                   Tensor::full({}, static_cast<double>(read(batch)), DType::float64, device),
                   batch.size());
    };
    const auto train = [&](StepRunner& runner) {
      Observation seen;
      for (std::int64_t step = 1; step <= 9; ++step) {
        Batch batch({{.name = "x", .values = values(2)}}, {step, step + 1}, step);
        batch.set_positions({step, step});
        batch.set_global_size(900 + step);
        runner.run(batch, seen, work, "");
      }
      return seen.values().at("first").sum();
    };
    const auto runner = make(GraphMode::automatic);
    EXPECT_EQ(train(*runner), 45);
    EXPECT_EQ(runner->why_not_recorded(),
              "the loss function reads the batch's " + what + " on the host");
    EXPECT_EQ(runner->recordings(), 0);
    EXPECT_THROW(train(*make(GraphMode::on)), Error);
  }
}

// In some of the steps, after others were recorded.
TEST_F(StepRunnerTest, HandlesBatchNumbersFirstReadWhileRecording) {
  const auto runner = make(GraphMode::automatic);
  work = [&](const Batch& batch, Observation& seen) {
    const auto epoch = static_cast<double>(++done > 3 ? batch.epoch() : 0);
    seen.add_sum("first", Tensor::full({}, epoch, DType::float64, device), 1);
  };
  Observation seen;
  for (std::int64_t step = 1; step <= 9; ++step)
    runner->run({{{.name = "x", .values = values(1)}}, {0}, step}, seen, work, "");
  EXPECT_EQ(seen.values().at("first").sum(), 45 - 1 - 2 - 3);
  EXPECT_THAT(runner->why_not_recorded(), HasSubstr("epoch"));
}

// As in a long epoch.
TEST_F(StepRunnerTest, ReadsResultsOfManyStepsAtTheEnd) {
  const auto runner = make(GraphMode::automatic);
  EXPECT_EQ(run(*runner, 1, 5000), 5000.0 * 5001 / 2);
}

// More than a device writes at once, and then more than the steps before.
TEST_F(StepRunnerTest, ReportsAnyNumberOfScalars) {
  const auto runner = make(GraphMode::on);
  Observation seen;
  std::int64_t scalars = 0;
  work = [&](const Batch& batch, Observation& found) {
    ++(is_recording() ? recorded : done);
    const Tensor first = batch["x"].reshape({batch.size() * 2}).slice(0, 1).reshape({});
    for (std::int64_t i = 0; i < scalars; ++i) found.add_mean(std::to_string(i), first, i + 1);
  };
  const auto run_with = [&](std::int64_t count) {
    scalars = count;
    for (int step = 1; step <= 600; ++step)
      runner->run(batch_of(count, static_cast<float>(step)), seen, work, "");
  };
  const auto before = guarded_device_counts();
  run_with(3);
  run_with(20);
  run_with(100);
  run_with(3);
  run_with(20);
  const double sum = 600.0 * 601 / 2;
  ASSERT_EQ(seen.values().size(), 100U);
  for (const auto& [key, value] : seen.values()) {
    const int i = std::stoi(key);
    const int runs = i < 3 ? 5 : i < 20 ? 3 : 1;
    EXPECT_EQ(value.sum(), runs * (i + 1) * sum) << key;
    EXPECT_EQ(value.count, runs * (i + 1) * 600) << key;
  }
  // Steps of 3 scalars, and of 20, are recorded anew for the wider rows.
  EXPECT_EQ(recorded, 5);
  EXPECT_EQ(guarded_device_counts().replays - before.replays, 5 * 600 - done);
}

TEST_F(StepRunnerTest, EvictsTheLeastRecentlyUsedRecording) {
  const auto runner = make(GraphMode::automatic, 2);
  run(*runner, 1, 4);
  run(*runner, 2, 2);
  run(*runner, 1, 1);
  run(*runner, 3, 2);  // in place of 2
  EXPECT_EQ(runner->recordings(), 3);
  run(*runner, 1, 1);
  run(*runner, 3, 1);
  EXPECT_EQ(done, 3 + 1 + 1);
  run(*runner, 2, 2);
  EXPECT_EQ(runner->recordings(), 4);
}

// As of sequences whose batches are hardly ever as long as one before.
TEST_F(StepRunnerTest, StopsRecordingKindsThatDoNotRecur) {
  constexpr int room = 4;
  const auto runner = make(GraphMode::automatic, room);
  // No kind comes back before its recording has to go.
  for (int round = 0; round < 12; ++round)
    for (int examples = 1; examples <= 2 * room; ++examples) run(*runner, examples, 1);
  const std::int64_t recordings = runner->recordings();
  EXPECT_EQ(recordings, 2 * room);
  EXPECT_EQ(runner->why_not_recorded(), "");
  // The recordings that are there go on.
  const std::int64_t before = replays;
  EXPECT_EQ(run(*runner, 2 * room, 3), 6);
  EXPECT_EQ(replays, before + 3);
  // Other work may have other kinds.
  runner->forget();
  run(*runner, 1, 3);
  EXPECT_EQ(runner->recordings(), recordings + 1);
}

TEST_F(StepRunnerTest, HandlesMoreRecurringKindsThanFit) {
  constexpr int room = 4;
  const auto runner = make(GraphMode::automatic, room);
  for (int round = 0; round < 6; ++round)
    for (int examples = 1; examples <= 2 * room; ++examples) run(*runner, examples, 6);
  EXPECT_EQ(runner->recordings(), 6 * 2 * room);
}

TEST_F(StepRunnerTest, RecordsEveryKindOnRequest) {
  const auto runner = make(GraphMode::on, 4);
  for (int round = 0; round < 12; ++round)
    for (int examples = 1; examples <= 8; ++examples) run(*runner, examples, 1);
  EXPECT_GT(runner->recordings(), 16);
}

}  // namespace
}  // namespace tasuki
