// Whole runs on a device whose memory the host cannot touch: nothing reads or writes it but through
// the backend, and the results are those of a CPU to the bit.
#include <gtest/gtest.h>

#include <limits>
#include <utility>

#include "core/stop_request.hpp"
#include "device_training.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"
#include "training/standard_updater.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::DeviceTraining;
using testing::graph_of;
using testing::guarded_device_counts;
using testing::log_without_times;
using testing::on_device;
using testing::SmallRun;
using testing::weights;

// A message ahead of the next step says it to the other ranks.
TEST_F(DeviceTraining, StopsOnAllRanksWhenOneIsAsked) {
  for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
    const SmallRun run(folder / "out", comm.get(), on_device(graph));
    run.trainer->extend(make_extension("ask", [&](Trainer& training) {
      if (training.updater().iteration() == 5 && comm->rank() == comm->size() - 1) request_stop();
    }));
    EXPECT_THROW(run.trainer->run(), Stopped);
    EXPECT_EQ(run.trainer->updater().iteration(), comm->size() == 1 ? 5 : 6);
  }
}

TEST_F(DeviceTraining, MatchesTheCpu) {
  const SmallRun cpu(folder / "cpu", comm.get(), {});
  cpu.trainer->run();
  for (const bool is_resident : {true, false}) {
    for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
      SCOPED_TRACE(fmt::format("resident {}, graph {}", is_resident, static_cast<int>(graph)));
      const auto before = guarded_device_counts();
      const SmallRun device(folder / "device", comm.get(), on_device(graph, is_resident));
      device.trainer->extend(std::make_unique<FailOnNonNumber>());
      device.trainer->run();
      EXPECT_EQ(log_without_times(device), log_without_times(cpu));
      EXPECT_EQ(weights(device), weights(cpu));
      const auto after = guarded_device_counts();
      EXPECT_EQ(after.replays > before.replays, graph != GraphMode::off);
      // Training steps over the host cannot be recorded, evaluation can. 97 examples in batches of
      // 7, and 41: a full and a short batch each.
      if (graph == GraphMode::on) {
        EXPECT_EQ(after.recordings - before.recordings, 4);
      }
    }
  }
}

TEST_F(DeviceTraining, SupportsLazyShapes) {
  const SmallRun cpu(folder / "cpu", comm.get(), {});
  cpu.trainer->run();
  for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
    SmallRun::Options options = on_device(graph);
    options.lazy = true;
    const auto before = guarded_device_counts();
    const SmallRun lazy(folder / "lazy", comm.get(), options);
    lazy.trainer->run();
    EXPECT_EQ(log_without_times(lazy), log_without_times(cpu));
    EXPECT_EQ(weights(lazy), weights(cpu));
    EXPECT_EQ(guarded_device_counts().replays > before.replays, graph != GraphMode::off);
  }
}

TEST_F(DeviceTraining, ResumesFromSnapshotsOfEitherDevice) {
  SmallRun::Options cpu, device = on_device(graph_of(*comm));
  const SmallRun whole(folder / "whole", comm.get(), cpu);
  whole.trainer->run();
  for (const bool from_device : {true, false}) {
    SCOPED_TRACE(from_device);
    SmallRun::Options first = from_device ? device : cpu, second = from_device ? cpu : device;
    first.epochs = 1;
    {
      const SmallRun run(folder / "first", comm.get(), first);
      run.trainer->extend(std::make_unique<Snapshot>());
      run.trainer->run();
    }
    comm->barrier();
    const SmallRun run(folder / "second", comm.get(), second);
    run.trainer->extend(std::make_unique<Snapshot>());
    resume(*newest_snapshot(folder / "first"), *run.trainer);
    run.trainer->run();
    EXPECT_EQ(log_without_times(run), log_without_times(whole));
    EXPECT_EQ(weights(run), weights(whole));
  }
}

// Training and evaluation are recorded anew when parameters are frozen and unfrozen.
TEST_F(DeviceTraining, MatchesTheCpuForFrozenParameters) {
  const auto train = [&](const SmallRun::Options& options) {
    const SmallRun run(folder / "out", comm.get(), options);
    run.trainer->extend(make_extension("freeze",
                                       [&](Trainer& training) {
                                         const std::int64_t i = training.updater().iteration();
                                         if (i == 7) run.optimizer->freeze("predictor/l1/*");
                                         if (i == 14) run.optimizer->unfreeze("predictor/l1/W");
                                       }),
                        {.trigger = every(1, Unit::iteration)});
    run.trainer->run();
    EXPECT_EQ(run.optimizer->arena().frozen().size(), 1U);
    return std::pair(log_without_times(run), weights(run));
  };
  const auto expected = train({});
  EXPECT_EQ(train(on_device()), expected);
  const auto before = guarded_device_counts();
  EXPECT_EQ(train(on_device(graph_of(*comm))), expected);
  EXPECT_GT(guarded_device_counts().replays, before.replays);
}

TEST_F(DeviceTraining, LearnsIn16Bits) {
  const SmallRun cpu(folder / "cpu", comm.get(), {});
  cpu.trainer->run();
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name_of(dtype));
    SmallRun::Options options = on_device(graph_of(*comm));
    options.dtype = dtype;
    const SmallRun half(folder / "half", comm.get(), options);
    half.trainer->run();
    const auto loss = [](const SmallRun& run) {
      return run.log->entries().back().at("main/loss").get<double>();
    };
    EXPECT_NEAR(loss(half), loss(cpu), 0.05 * loss(cpu));
    EXPECT_EQ(half.optimizer->guard().loss_scaler() != nullptr, dtype == DType::float16);
  }
}

// The copy that operations read follows updates, snapshots and everything else that writes weights.
TEST_F(DeviceTraining, UpdatesRoundedWeights) {
  const auto expect_in_step = [](const SmallRun& run, DType dtype) {
    const ParameterArena& arena = run.optimizer->arena();
    ASSERT_TRUE(arena.rounded());
    const auto bits = [](const Tensor& x) {
      const Tensor host = x.to(Device::cpu()).to(DType::float32);
      return std::vector<float>(host.span<float>().begin(), host.span<float>().end());
    };
    EXPECT_EQ(bits(arena.rounded()), bits(arena.values().to(dtype)));
    for (const auto& [path, parameter] : run.model->parameters())
      EXPECT_EQ(bits(parameter->value_as(dtype)), bits(parameter->value().to(dtype))) << path;
  };
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    SCOPED_TRACE(name_of(dtype));
    std::vector<float> found[2];
    for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
      SmallRun::Options options = on_device(graph);
      options.dtype = dtype;
      const SmallRun run(folder / "run", comm.get(), options);
      run.optimizer->compute_in(dtype);
      expect_in_step(run, dtype);
      run.trainer->extend(std::make_unique<Snapshot>());
      run.trainer->run();
      expect_in_step(run, dtype);
      found[graph == GraphMode::off ? 0 : 1] = weights(run);
      comm->barrier();
      const SmallRun loaded(folder / "loaded", comm.get(), options);
      loaded.optimizer->compute_in(dtype);
      loaded.trainer->extend(std::make_unique<Snapshot>());
      resume(*newest_snapshot(folder / "run"), *loaded.trainer);
      EXPECT_EQ(weights(loaded), weights(run));
      expect_in_step(loaded, dtype);
      loaded.model->initialize(99);
      expect_in_step(loaded, dtype);
      comm->barrier();
    }
    EXPECT_EQ(found[0], found[1]);
  }
}

TEST_F(DeviceTraining, AccumulatesBatchesLikeTheCpu) {
  SmallRun::Options options;
  options.accumulate = 3;
  const SmallRun cpu(folder / "cpu", comm.get(), options);
  cpu.trainer->run();
  for (const bool is_resident : {true, false})
    for (const GraphMode graph : {GraphMode::off, GraphMode::automatic}) {
      SmallRun::Options there = on_device(graph, is_resident);
      there.accumulate = 3;
      const SmallRun device(folder / "device", comm.get(), there);
      device.trainer->run();
      EXPECT_EQ(log_without_times(device), log_without_times(cpu));
      EXPECT_EQ(weights(device), weights(cpu));
      const auto& updater = dynamic_cast<const StandardUpdater&>(device.trainer->updater());
      EXPECT_EQ(updater.runner().recordings(), 0);
      EXPECT_EQ(updater.runner().why_not_recorded().empty(), graph == GraphMode::off);
    }
  SmallRun::Options recorded = on_device(GraphMode::on);
  recorded.accumulate = 2;
  testing::expect_error(ErrorKind::usage, {"--accumulate and --graph on"},
                        [&] { SmallRun(folder / "recorded", comm.get(), recorded); });
}

// Recorded or not, and with the running statistics and the number of updates of a CPU.
TEST_F(DeviceTraining, SkipsNonFiniteStepsLikeTheCpu) {
  const auto train = [&](SmallRun::Options options) {
    options.skips_non_finite = true;
    const SmallRun run(folder / "out", comm.get(), options);
    run.trainer->extend(std::make_unique<FailOnNonNumber>());
    // In the tenth iteration a weight is not a number.
    Tensor before;
    run.trainer->extend(make_extension("spoil", [&](Trainer& training) {
      const Tensor& values = run.optimizer->arena().values();
      if (training.updater().iteration() == 9) {
        before = values.clone();
        values.slice(0, 1).fill(std::numeric_limits<double>::quiet_NaN());
      }
      if (training.updater().iteration() == 10) values.copy_from(before);
    }));
    run.trainer->run();
    EXPECT_EQ(run.optimizer->guard().skipped(), 1);
    EXPECT_EQ(run.optimizer->t(), run.trainer->updater().iteration() - 1);
    EXPECT_GT(run.log->entries().back().at("validation/main/accuracy"), 0);
    return std::pair(log_without_times(run), weights(run));
  };
  const auto expected = train({});
  for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
    const auto before = guarded_device_counts();
    EXPECT_EQ(train(on_device(graph)), expected);
    EXPECT_EQ(guarded_device_counts().replays > before.replays, graph != GraphMode::off);
  }
}

TEST_F(DeviceTraining, RejectsDifferentDevices) {
  if (comm->size() == 1) return;
  const bool is_on_cpu = comm->rank() == comm->size() - 1;
  testing::expect_error(ErrorKind::disagreement, {"a model on a GPU", "a model on a CPU", "rank 1"},
                        [&] {
                          SmallRun(folder / "out", comm.get(),
                                   is_on_cpu ? SmallRun::Options() : on_device(GraphMode::off));
                        });
}

// Ranks tell each other before a step how many examples its first batch has.
TEST_F(DeviceTraining, AveragesOverAllBatchesOfAStep) {
  const auto trained_on = [&](Device device) {
    Linear layer(12, 4);
    layer.initialize(3);
    layer.to(device);
    const auto optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *comm);
    optimizer->setup(layer);
    for (int number = 0; number < 5; ++number) {
      StepScope step;
      for (int batch = 0; batch < 3; ++batch) {
        const std::int64_t examples = (number + batch + comm->rank()) % 4;
        const Tensor x = Tensor::full({examples, 12}, static_cast<float>(batch)).to(device);
        const Tensor t = Tensor::full({examples}, number % 4, DType::int32).to(device);
        const Variable loss = optimizer->forward(
            [&] { return F::softmax_cross_entropy(layer(Variable(x)), t); }, examples);
        if (batch < 2)
          optimizer->backward(loss, examples);
        else
          optimizer->update(optimizer->backward_and_exchange(loss, examples));
      }
      step.succeeded();
    }
    const Tensor host = optimizer->arena().values().to(Device::cpu());
    const auto values = host.span<float>();
    return std::vector<float>(values.begin(), values.end());
  };
  EXPECT_EQ(trained_on(Device::cuda(0)), trained_on(Device::cpu()));
}

// Recorded or not, and with the last gradients used before each evaluation.
TEST_F(DeviceTraining, MatchesTheCpuWithDoubleBuffering) {
  SmallRun::Options options;
  options.exchange = ExchangeMode::double_buffered;
  for (const std::int64_t accumulate : {1, 2}) {
    options.accumulate = accumulate;
    const SmallRun cpu(folder / "cpu", comm.get(), options);
    cpu.trainer->run();
    for (const GraphMode graph : {GraphMode::off, GraphMode::automatic}) {
      SmallRun::Options there = on_device(graph);
      there.exchange = options.exchange;
      there.accumulate = accumulate;
      const SmallRun device(folder / "device", comm.get(), there);
      device.trainer->run();
      EXPECT_EQ(log_without_times(device), log_without_times(cpu));
      EXPECT_EQ(weights(device), weights(cpu));
      EXPECT_EQ(device.optimizer->t(), cpu.optimizer->t());
    }
  }
}

TEST_F(DeviceTraining, ShardsOptimizerStatesLikeTheCpu) {
  SmallRun::Options options;
  options.sharded = true;
  const SmallRun cpu(folder / "cpu", comm.get(), options);
  cpu.trainer->run();
  SmallRun::Options there = on_device(GraphMode::automatic);
  there.sharded = true;
  const SmallRun device(folder / "device", comm.get(), there);
  device.trainer->run();
  EXPECT_EQ(device.optimizer->states().are_sharded(), comm->size() > 1);
  EXPECT_EQ(log_without_times(device), log_without_times(cpu));
  EXPECT_EQ(weights(device), weights(cpu));
}

}  // namespace
}  // namespace tasuki
