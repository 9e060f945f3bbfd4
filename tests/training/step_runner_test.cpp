// When steps are recorded and replayed, on a device whose memory the host cannot touch; what is
// carried there, and what drops a recording.
#include "tasuki/training/recording/step_runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>

#include "guarded_device/guarded_device.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/nn/functions/dropout.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/nn/random.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/recorder.hpp"

namespace tasuki {
namespace {

using testing::guarded_device_counts;
using ::testing::HasSubstr;

const Device device = [] {
  testing::register_guarded_device();
  return Device::cuda(0);
}();

Tensor values(std::int64_t examples, float first = 0) {
  const Tensor x = Tensor::empty({examples, 2});
  for (float& value : x.span<float>()) value = first++;
  return x;
}

Batch batch_of(std::int64_t examples, float first = 0) {
  return {{{.name = "x", .values = values(examples, first)}},
          std::vector<std::int64_t>(static_cast<std::size_t>(examples), 1)};
}

bool is_recording() {
  return current_recorder() != nullptr && current_recorder()->is_recording();
}

// Steps of an evaluation whose work only counts.
class StepRunnerTest : public ::testing::Test {
 protected:
  StepRunnerTest() { model.to(device); }

  std::unique_ptr<StepRunner> make(GraphMode mode, std::size_t most = 16) {
    return std::make_unique<StepRunner>(
        model, StepRunner::Settings{.graph = mode, .most_recordings = most});
  }
  StepRunner::Work work = [this](const Batch& batch, Observation& seen) {
    ++(is_recording() ? recorded : done);
    if (is_recording() && !failure.empty()) fail(ErrorKind::unavailable, "{}", failure);
    // The first value of x, seen on the device.
    seen.add_sum("first", batch["x"].reshape({batch.size() * 2}).slice(0, 1).reshape({}), 1);
  };
  // Steps whose batches begin with 1, 2, ...; what they saw.
  double run(StepRunner& runner, std::int64_t examples, int times) {
    const auto before = guarded_device_counts();
    Observation seen;
    for (int i = 1; i <= times; ++i)
      runner.run(batch_of(examples, static_cast<float>(i)), seen, work, "");
    replays += guarded_device_counts().replays - before.replays;
    return seen.values().at("first").sum;
  }

  Linear model{2, 2};
  std::string failure;
  int done = 0, recorded = 0;
  std::int64_t replays = 0;
};

TEST_F(StepRunnerTest, WarmUpThenOneRecordingForAll) {
  const auto runner = make(GraphMode::automatic);
  EXPECT_EQ(run(*runner, 100, 10), 55);  // each step is done once, with values of its own
  EXPECT_EQ(done, 3);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(replays, 7);
}

TEST_F(StepRunnerTest, EachKindHasARecordingOfItsOwn) {
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

TEST_F(StepRunnerTest, AFailureIsRememberedAndTheStepIsDone) {
  const auto runner = make(GraphMode::automatic);
  failure = "the stream is busy";
  EXPECT_EQ(run(*runner, 1, 6), 21);
  EXPECT_EQ(run(*runner, 2, 6), 21);
  EXPECT_EQ(recorded, 1);
  EXPECT_EQ(done, 12);
  EXPECT_EQ(runner->why_not_recorded(), "the stream is busy");
}

TEST_F(StepRunnerTest, DevicesThatDoNotRecord) {
  const auto runner = make(GraphMode::automatic);
  testing::set_guarded_device_records(false);
  run(*runner, 1, 6);
  testing::set_guarded_device_records(true);
  EXPECT_EQ(done, 6);
  EXPECT_EQ(runner->why_not_recorded(), "the device cannot record");
}

TEST_F(StepRunnerTest, AskedForAndImpossibleIsAnError) {
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

TEST_F(StepRunnerTest, OffAndRefusedAndForgotten) {
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

TEST_F(StepRunnerTest, NumbersThatTheHostComputesAreNotReplayed) {
  const auto runner = make(GraphMode::automatic);
  work = [this](const Batch&, Observation& seen) { seen.add_sum("first", ++done, 1); };
  EXPECT_EQ(run(*runner, 1, 6), 21);
  EXPECT_THAT(runner->why_not_recorded(), HasSubstr("values that the host computes"));
}

// A count of the host beside a sum of the device, and a sum of both.
TEST_F(StepRunnerTest, NumbersOfTheHostBesideThoseOfTheDeviceAreNotReplayed) {
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
    EXPECT_EQ(sum, i == 1 ? 9 + 45 : 9);
    EXPECT_EQ(count, 45);
    EXPECT_THAT(runner->why_not_recorded(), HasSubstr("values that the host computes"));
  }
}

// Each batch has its own.
TEST_F(StepRunnerTest, NumbersOfTheBatchThatTheHostReadsAreNotReplayed) {
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
    work = [&](const Batch& batch, Observation& seen) {
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
      return seen.values().at("first").sum;
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
TEST_F(StepRunnerTest, NumbersOfTheBatchAreReadForTheFirstTimeInARecording) {
  const auto runner = make(GraphMode::automatic);
  work = [&](const Batch& batch, Observation& seen) {
    const auto epoch = static_cast<double>(++done > 3 ? batch.epoch() : 0);
    seen.add_sum("first", Tensor::full({}, epoch, DType::float64, device), 1);
  };
  Observation seen;
  for (std::int64_t step = 1; step <= 9; ++step)
    runner->run({{{.name = "x", .values = values(1)}}, {0}, step}, seen, work, "");
  EXPECT_EQ(seen.values().at("first").sum, 45 - 1 - 2 - 3);
  EXPECT_THAT(runner->why_not_recorded(), HasSubstr("epoch"));
}

// As in a long epoch.
TEST_F(StepRunnerTest, ResultsOfManyStepsAreReadAtTheEnd) {
  const auto runner = make(GraphMode::automatic);
  EXPECT_EQ(run(*runner, 1, 5000), 5000.0 * 5001 / 2);
}

// More than a device writes at once, and then more than the steps before.
TEST_F(StepRunnerTest, AnyNumberOfScalarsIsReported) {
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
  const double sum = 600 * 601 / 2;
  ASSERT_EQ(seen.values().size(), 100U);
  for (const auto& [key, value] : seen.values()) {
    const int i = std::stoi(key);
    const int runs = i < 3 ? 5 : i < 20 ? 3 : 1;
    EXPECT_EQ(value.sum, runs * (i + 1) * sum) << key;
    EXPECT_EQ(value.count, runs * (i + 1) * 600) << key;
  }
  // Steps of 3 scalars, and of 20, are recorded anew for the wider rows.
  EXPECT_EQ(recorded, 5);
  EXPECT_EQ(guarded_device_counts().replays - before.replays, 5 * 600 - done);
}

TEST_F(StepRunnerTest, TheRecordingThatWasNotUsedForLongestGoesFirst) {
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
TEST_F(StepRunnerTest, KindsThatDoNotComeBackAreNotRecordedWithoutEnd) {
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

TEST_F(StepRunnerTest, KindsThatComeBackMayBeMoreThanThereIsRoomFor) {
  constexpr int room = 4;
  const auto runner = make(GraphMode::automatic, room);
  for (int round = 0; round < 6; ++round)
    for (int examples = 1; examples <= 2 * room; ++examples) run(*runner, examples, 6);
  EXPECT_EQ(runner->recordings(), 6 * 2 * room);
}

TEST_F(StepRunnerTest, AskedForEveryKindIsRecorded) {
  const auto runner = make(GraphMode::on, 4);
  for (int round = 0; round < 12; ++round)
    for (int examples = 1; examples <= 8; ++examples) run(*runner, examples, 1);
  EXPECT_GT(runner->recordings(), 16);
}

// --- late values ---

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

TEST_F(StepRunnerTest, LateValuesAreThoseOfEachStep) {
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

TEST_F(StepRunnerTest, TwoCountsOfLateValuesInAStepAreAnError) {
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
TEST_F(StepRunnerTest, CountsOfLateValuesMayDifferFromStepToStep) {
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

TEST_F(StepRunnerTest, AFailingRecordingDrawsNothingAnew) {
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
TEST_F(StepRunnerTest, AStepThatFailsIsNotCounted) {
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

TEST_F(StepRunnerTest, ARecordingIsDroppedWithTheOwnerOfItsValues) {
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

TEST_F(StepRunnerTest, ARecordingIsDroppedWithWhatItReads) {
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
    const auto fresh = [&] { return Tensor::zeros(parameter->shape(), DType::float32, device); };
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
TEST_F(StepRunnerTest, DropoutOfRecordedStepsIsThatOfOthers) {
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
            const Variable dropped = dropout(dropout(Variable(there["x"]), 0.3F), 0.5F);
            const Tensor labels = Tensor::zeros({30}, DType::int32, device);
            report.add_mean("loss", softmax_cross_entropy(dropped, labels).value(), 30);
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

// --- ranks ---

class StepsOfRanks : public ::testing::Test {
 protected:
  StepsOfRanks() {
    model.initialize(3);
    model.to(device);
    optimizer->setup(model);
  }
  // Training steps in which gradients are not exchanged, so that they can be recorded.
  void train(StepRunner& runner, std::int64_t examples, int times) {
    for (int i = 0; i < times; ++i) {
      Batch batch = batch_of(examples, static_cast<float>(i));
      if (knows_all) batch.set_global_size(examples * comm->size());
      Observation seen;
      runner.run(batch, seen, work, "");
    }
  }
  StepRunner::Work work = [this](const Batch& batch, Observation& seen) {
    ++(is_recording() ? recorded : done);
    if (is_recording() && fails) fail(ErrorKind::unavailable, "the stream is busy");
    const auto loss = [&] {
      const Tensor labels = Tensor::zeros({batch.size()}, DType::int32, device);
      Variable found = softmax_cross_entropy(model(Variable(batch["x"])), labels);
      seen.add_mean("loss", found.value(), batch.size());
      return found;
    };
    optimizer->backward(optimizer->forward(loss, batch.size()), batch.size());
    optimizer->update(optimizer->exchange());
  };

  const std::unique_ptr<Communicator> comm = create_communicator("dummy");
  const bool is_last = comm->rank() == comm->size() - 1;
  Linear model{2, 3};
  std::unique_ptr<Optimizer> optimizer =
      create_multi_node_optimizer(create_optimizer("adam"), *comm);
  bool knows_all = true, fails = false;
  int done = 0, recorded = 0;
};

TEST_F(StepsOfRanks, NobodyReplaysWhatAnotherRankCouldNotRecord) {
  StepRunner runner({optimizer.get()}, {.graph = GraphMode::automatic});
  train(runner, 4, 5);
  EXPECT_EQ(recorded, 1);
  fails = is_last;
  train(runner, 6, 5);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(done, 3 + 5);
  EXPECT_EQ(runner.why_not_recorded(),
            is_last ? "the stream is busy" : "another rank could not record its part");
  train(runner, 4, 2);  // others do as they are, too
  EXPECT_EQ(done, 3 + 5 + 2);
  EXPECT_EQ(optimizer->t(), 12);
}

// A rank that has dropped a recording which the others still have: all do what the least ready one
// can, and all record again.
TEST_F(StepsOfRanks, ARecordingThatOneRankAloneHasDropped) {
  StepRunner runner({optimizer.get()}, {.graph = GraphMode::automatic});
  train(runner, 4, 6);
  EXPECT_EQ(done, 3);
  if (is_last) runner.forget();
  train(runner, 4, 4);
  EXPECT_EQ(done, 4);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(optimizer->t(), 10);
}

TEST_F(StepsOfRanks, RanksNeedNotHaveEquallyManyExamples) {
  StepRunner runner({optimizer.get()}, {.graph = GraphMode::automatic});
  knows_all = false;  // the sizes are added up
  train(runner, is_last ? 5 : 4, 6);
  EXPECT_EQ(done, 3);
  EXPECT_EQ(recorded, 1);
  train(runner, is_last ? 0 : 3, 3);
  if (comm->size() > 1) {
    EXPECT_EQ(optimizer->t(), 9);
    EXPECT_EQ(recorded, 2);
  } else {
    EXPECT_EQ(optimizer->t(), 6);  // no rank had any
  }
}

// How many examples other ranks have makes no other kind of step: what sums are divided by is a
// late value. (Of exchanges in 16 bits the power of two counts.)
TEST_F(StepsOfRanks, ExamplesOfOtherRanksMakeNoOtherKind) {
  if (comm->size() != 2) GTEST_SKIP() << "needs two ranks";
  const auto train_for = [&](GraphMode mode) {
    model.initialize(3);
    optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *comm);
    optimizer->add_hook(gradient_clipping(0.1));
    optimizer->setup(model);
    StepRunner runner({optimizer.get()}, {.graph = mode});
    knows_all = false;
    done = recorded = 0;
    // 9 examples, of which one rank has 4 and then the other, and 10.
    train(runner, is_last ? 5 : 4, 5);
    train(runner, is_last ? 4 : 5, 3);
    train(runner, 5, 3);
    const Tensor host = optimizer->arena().values().to(Device::cpu());
    return std::vector<float>(host.span<float>().begin(), host.span<float>().end());
  };
  const std::vector<float> expected = train_for(GraphMode::off);
  EXPECT_EQ(train_for(GraphMode::automatic), expected);
  EXPECT_EQ(recorded, 2);
  EXPECT_EQ(done, 4);
}

// Rates are late values.
TEST_F(StepsOfRanks, ARateThatIsSetAfterTheRecordingCounts) {
  const auto weights = [this](GraphMode mode) {
    Linear net{2, 3};
    net.initialize(3);
    net.to(device);
    const auto adam = create_optimizer("adam");
    adam->setup(net);
    StepRunner runner({adam.get()}, {.graph = mode});
    for (int i = 0; i < 10; ++i) {
      Observation seen;
      runner.run(
          batch_of(4, static_cast<float>(i)), seen,
          [&](const Batch& batch, Observation&) {
            adam->update(
                [&] {
                  const Tensor labels = Tensor::zeros({4}, DType::int32, device);
                  return softmax_cross_entropy(net(Variable(batch["x"])), labels);
                },
                4);
          },
          "");
      if (i == 6) adam->set("alpha", 0.1);
      if (i == 8) adam->add_hook(weight_decay(0.5));
    }
    EXPECT_EQ(adam->t(), 10);
    const Tensor host = adam->arena().values().to(Device::cpu());
    return std::vector<float>(host.span<float>().begin(), host.span<float>().end());
  };
  EXPECT_EQ(weights(GraphMode::automatic), weights(GraphMode::off));
}

}  // namespace
}  // namespace tasuki
