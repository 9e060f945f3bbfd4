// The extension WeightAverage: against PyTorch, on all ranks, resumed, and on a device.
#include "training/extensions/weight_average.hpp"

#include <algorithm>
#include <array>

#include "communicator/bytes.hpp"
#include "device_training.hpp"
#include "nn/connection.hpp"
#include "saving/npz.hpp"
#include "scripted_updater.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/paths.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::DeviceTraining;
using testing::graph_of;
using testing::guarded_device_counts;
using testing::on_device;
using testing::ScriptedUpdater;
using testing::SmallRun;
using testing::weights;

using Values = std::vector<float>;

WeightAverage& average(const SmallRun& run, double decay) {
  return run.trainer->extend(std::make_unique<WeightAverage>(
      run.trainer->updater().optimizers(), WeightAverage::Settings{.decay = decay}));
}

// What the model's parameters are while it has the average.
Values averaged(const SmallRun& run, const WeightAverage& average) {
  Values values;
  average.with_averages([&] { values = weights(run); });
  return values;
}

// The log without times, and without the values of the average if it is not `whole`.
nlohmann::json log_of(const SmallRun& run, bool whole = true) {
  nlohmann::json log;
  for (const auto& entry : run.log->entries()) {
    nlohmann::json kept;
    for (const auto& [key, value] : entry.items())
      if (key != "elapsed_time" && (whole || !key.starts_with("ema/"))) kept[key] = value;
    log.push_back(kept);
  }
  return log;
}

void expect_same_on_all_ranks(Communicator& comm, const Values& values) {
  const auto all = allgather_bytes(comm, std::as_bytes(std::span(values)));
  for (const Bytes& each : all) EXPECT_EQ(each, all[0]);
}

TEST(WeightAverages, FollowPyTorch) {
  const nlohmann::json expected = testing::json_in(TORCH_EMA);
  const auto steps = expected.at("weights").get<std::vector<Values>>();
  const auto averages = expected.at("averages").get<std::vector<std::vector<double>>>();
  Linear model(20, 1, /*bias=*/false);
  model.initialize(0);
  const auto optimizer = create_optimizer("sgd");
  optimizer->setup(model);
  const Tensor w = model.parameters().front().parameter->value();
  const auto set = [&](std::int64_t iteration, Observation&) {
    std::ranges::copy(steps[static_cast<std::size_t>(iteration) - 1], w.span<float>().begin());
  };
  Trainer trainer(std::make_unique<ScriptedUpdater>(100, set, optimizer.get()),
                  stop_after(1, std::ssize(steps)), testing::TemporaryFolder().path());
  const WeightAverage& average = trainer.extend(std::make_unique<WeightAverage>(
      trainer.updater().optimizers(),
      WeightAverage::Settings{.decay = expected.at("decay").get<double>()}));
  std::size_t compared = 0;
  trainer.extend(make_extension("compare", [&](Trainer& at) {
    const auto step = static_cast<std::size_t>(at.updater().iteration()) - 1;
    average.with_averages([&] {
      for (std::size_t i = 0; i < averages[step].size(); ++i, ++compared)
        EXPECT_NEAR(w.span<float>()[i], averages[step][i], 1e-6) << "step " << step;
    });
    EXPECT_EQ(Values(w.span<float>().begin(), w.span<float>().end()), steps[step]);
  }));
  trainer.run();
  EXPECT_EQ(compared, steps.size() * 20);
}

TEST(WeightAverages, RefuseOtherDecays) {
  for (const double decay : {-0.1, 1.0})
    EXPECT_NE(testing::error_of([&] {
                WeightAverage({}, WeightAverage::Settings{.decay = decay});
              }).find("must be in [0, 1)"),
              std::string::npos);
}

using Averages = DeviceTraining;

// Weights are those of a run without an average; a decay of 0 follows them.
TEST_F(Averages, AreEvaluatedBesideTheWeights) {
  const SmallRun plain(folder / "plain", comm.get(), {});
  plain.trainer->run();
  for (const double decay : {0.0, 0.95}) {
    SCOPED_TRACE(decay);
    const SmallRun run(folder / "averaged", comm.get(), {});
    const WeightAverage& own = average(run, decay);
    run.trainer->run();
    EXPECT_EQ(log_of(run, false), log_of(plain));
    EXPECT_EQ(weights(run), weights(plain));
    const Values mean = averaged(run, own);
    EXPECT_EQ(mean == weights(run), decay == 0);
    expect_same_on_all_ranks(*comm, mean);
    for (const auto& entry : log_of(run))
      EXPECT_EQ(entry.at("ema/validation/main/loss") == entry.at("validation/main/loss"),
                decay == 0)
          << entry;
  }
}

// In which way weights and states are kept, and what travels when, makes no difference.
TEST_F(Averages, DoNotDependOnWhoKeepsTheWeights) {
  const auto end = [&](const SmallRun::Options& options) {
    const SmallRun run(folder / "out", comm.get(), options);
    const WeightAverage& own = average(run, 0.9);
    run.trainer->run();
    return std::pair(averaged(run, own), log_of(run));
  };
  const auto expected = end({});
  EXPECT_EQ(end({.sharded = true}), expected);
  EXPECT_EQ(end({.shares = true}), expected);
  EXPECT_EQ(end({.sharded = true, .shares = true}), expected);
  expect_same_on_all_ranks(*comm, end({.exchange = ExchangeMode::double_buffered}).first);
}

TEST_F(Averages, ContinueInAResumedRun) {
  const auto options = [](std::optional<std::int64_t> iterations = {}) {
    return SmallRun::Options{.epochs = 2, .iterations = iterations, .frozen = "predictor/l1/*"};
  };
  const SmallRun whole(folder / "whole", comm.get(), options());
  const WeightAverage& of_whole = average(whole, 0.9);
  whole.trainer->run();
  {
    const SmallRun first(folder / "first", comm.get(), options(5));
    average(first, 0.9);
    first.trainer->run();
    save_snapshot(folder / "state", *first.trainer);
  }
  const SmallRun second(folder / "second", comm.get(), options());
  const WeightAverage& own = average(second, 0.9);
  resume(folder / "state", *second.trainer);
  second.trainer->run();
  EXPECT_EQ(averaged(second, own), averaged(whole, of_whole));
  EXPECT_EQ(log_of(second).back(), log_of(whole).back());
}

// A parameter that is unfrozen begins with the weights of that iteration; others go on.
TEST_F(Averages, FollowParametersThatAreUnfrozen) {
  const SmallRun run(folder / "out", comm.get(), {.epochs = 1, .frozen = "predictor/l1/*"});
  const WeightAverage& own = average(run, 0.9);
  const auto l1 = [&] {
    const Tensor w = run.model->parameters().front().parameter->value();
    return Values(w.span<float>().begin(), w.span<float>().end());
  };
  const Values before = l1();
  run.trainer->extend(make_extension("unfreeze", [&](Trainer& trainer) {
    if (trainer.updater().iteration() == 2) run.optimizer->unfreeze("predictor/l1/*");
  }));
  run.trainer->run();
  EXPECT_NE(l1(), before);
  Values mean;
  own.with_averages([&] { mean = l1(); });
  EXPECT_NE(mean, l1());
  EXPECT_NE(mean, before);
}

TEST_F(Averages, AreWrittenWithTheModelsOwnBuffers) {
  const SmallRun run(folder / "out", comm.get(), {.epochs = 1, .frozen = "predictor/l2/*"});
  const WeightAverage& own = average(run, 0.9);
  run.trainer->run();
  comm->barrier();
  const NpzFile file(folder / "out/ema.npz");
  const auto bytes = [](const Tensor& values) {
    const Tensor host = values.plain();
    return std::string(static_cast<const char*>(host.raw()), host.bytes());
  };
  std::size_t found = 0;
  own.with_averages([&] {
    for (const auto& [path, parameter] : run.model->parameters()) {
      EXPECT_EQ(bytes(std::get<Tensor>(file.read(path))), bytes(parameter->value())) << path;
      ++found;
    }
  });
  for (const auto& [path, buffer] : run.model->buffers()) {
    if (comm->rank() > 0) break;  // whose running statistics are not in the file
    EXPECT_EQ(bytes(std::get<Tensor>(file.read(path))), bytes(*buffer)) << path;
  }
  EXPECT_EQ(file.names().size(), found + run.model->buffers().size());
}

TEST_F(Averages, MatchTheCpusOnADeviceThatRecords) {
  const SmallRun cpu(folder / "cpu", comm.get(), {});
  const WeightAverage& of_cpu = average(cpu, 0.9);
  cpu.trainer->run();
  for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
    SCOPED_TRACE(static_cast<int>(graph));
    const auto before = guarded_device_counts();
    const SmallRun device(folder / "device", comm.get(), on_device(graph));
    const WeightAverage& own = average(device, 0.9);
    device.trainer->run();
    EXPECT_EQ(log_of(device), log_of(cpu));
    EXPECT_EQ(averaged(device, own), averaged(cpu, of_cpu));
    EXPECT_EQ(guarded_device_counts().replays > before.replays, graph != GraphMode::off);
  }
}

}  // namespace
}  // namespace tasuki
