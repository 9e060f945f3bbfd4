// Whole runs on a device whose memory the host cannot touch: nothing reads or writes it but through
// the backend, no step waits, and the results are those of a CPU to the bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "errors.hpp"
#include "guarded_device/guarded_device.hpp"
#include "own_parts.hpp"
#include "printed.hpp"
#include "sequences.hpp"
#include "small_run.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/communicator/text_bytes.hpp"
#include "tasuki/core/stop_request.hpp"
#include "tasuki/dataset/images/augmentation.hpp"
#include "tasuki/dataset/in_memory.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"
#include "tasuki/optimizer/hook.hpp"
#include "tasuki/training/extensions/fail_on_non_number.hpp"
#include "tasuki/training/extensions/generic_evaluator.hpp"
#include "tasuki/training/extensions/print_progress.hpp"
#include "tasuki/training/extensions/print_steps.hpp"
#include "tasuki/training/workers/parallel_updater.hpp"
#include "temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::guarded_device_counts;
using testing::SmallRun;
using testing::TemporaryFolder;

const bool is_registered = [] {
  testing::register_guarded_device();
  return true;
}();

SmallRun::Options on_device(GraphMode graph = GraphMode::off, bool is_resident = true) {
  SmallRun::Options options;
  options.device = Device::cuda(0);
  options.graph = graph;
  options.is_resident = is_resident;
  return options;
}

// Steps through the host (MPI) cannot be recorded.
GraphMode graph_of(const Communicator& comm) {
  return comm.size() == 1 ? GraphMode::on : GraphMode::automatic;
}

std::string log_without_times(const SmallRun& run) {
  auto entries = run.log->entries();
  for (auto& entry : entries) entry.erase("elapsed_time");
  return entries.dump(1);
}

std::vector<float> weights(const SmallRun& run) {
  const Tensor host = run.optimizer->arena().values().to(Device::cpu());
  const auto values = host.span<float>();
  return {values.begin(), values.end()};
}

// A hook that cannot be recorded.
std::shared_ptr<OptimizerHook> make_host_hook() {
  struct HostHook : ArrayHook {
    std::string name() const override { return "a hook that computes on the host"; }
    void apply(const GradientArrays& /*arrays*/) override {
      refuse_recording("a hook computes on the host");
    }
  };
  return std::make_shared<HostHook>();
}

class DeviceTraining : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(is_registered); }
  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

TEST_F(DeviceTraining, ABroadcastEndsOnTheDeviceOfEachRank) {
  const auto comm_of_device = create_communicator("naive", {.device = Device::cuda(0)});
  for (int root = 0; root < comm->size(); ++root) {
    const Tensor found =
        comm_of_device->bcast(comm->rank() == root ? Tensor::full({2}, root) : Tensor(), root);
    EXPECT_EQ(found.device(), Device::cuda(0));
    EXPECT_EQ(found.slice(1, 2).item(), root);
  }
}

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

TEST_F(DeviceTraining, IsThatOfACpu) {
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

TEST_F(DeviceTraining, LazyShapesChangeNothing) {
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

// A user's iterators around the device's.
template <class Wrapper>
class OwnIterators : public DeviceTraining {};
using Wrappers = ::testing::Types<testing::Doubled, testing::Delayed>;
TYPED_TEST_SUITE(OwnIterators, Wrappers);

TYPED_TEST(OwnIterators, AreRecordedWithoutKnowing) {
  if (this->comm->size() > 1) GTEST_SKIP() << "one process is enough";
  const auto train = [](const SmallRun::Options& options) {
    const auto model = testing::small_model();
    model->to(options.device);
    const auto optimizer = create_optimizer("momentum_sgd");
    optimizer->setup(*model);
    const auto batches = [&](std::uint64_t split) {
      return std::make_unique<TypeParam>(SmallRun::on_device(
          create_shuffled_iterator(Share::whole(testing::synthetic(97, split)), 24, 3), options));
    };
    StandardUpdater updater(batches(0), *optimizer, classification_loss(*model),
                            {.seed = 3, .graph = options.graph});
    Evaluator evaluator(batches(1), classification_loss(*model), *model, options.graph);
    std::vector<double> losses;
    for (int step = 0; step < 12; ++step) {
      Observation seen;
      updater.update(seen);
      losses.push_back(seen.mean("main/loss").value());
      losses.push_back(evaluator.evaluate().mean("main/loss").value());
    }
    return losses;
  };
  const auto expected = train({});
  for (const bool is_resident : {true, false}) {
    EXPECT_EQ(train(on_device(GraphMode::off, is_resident)), expected);
    const auto before = guarded_device_counts();
    EXPECT_EQ(train(on_device(GraphMode::on, is_resident)), expected);
    EXPECT_GT(guarded_device_counts().replays, before.replays);
  }
}

TEST_F(DeviceTraining, AnEvaluatorOfResultsBringsBatchesToItsModel) {
  const auto model = testing::small_model();
  model->to(Device::cuda(0));
  GenericEvaluator evaluator(
      create_serial_iterator(Share::whole(testing::synthetic(9)), 4),
      [](const Batch& batch) {
        EXPECT_EQ(batch["x"].device(), Device::cuda(0));
        return Bytes();
      },
      [](const std::vector<Bytes>& results, Observation& found) {
        found.set("batches", static_cast<double>(results.size()));
      },
      *model);
  EXPECT_EQ(evaluator.evaluate().mean("batches"), 3);
}

TEST_F(DeviceTraining, NoStepWaits) {
  if (comm->size() > 1) GTEST_SKIP() << "exchanges through MPI wait for the device";
  for (const GraphMode graph : {GraphMode::off, GraphMode::on}) {
    const SmallRun run(folder / "out", comm.get(), on_device(graph));
    Observation seen;
    Updater& updater = run.trainer->updater();
    const auto before = guarded_device_counts();
    for (int step = 0; step < 40; ++step) updater.update(seen);
    const auto after = guarded_device_counts();
    EXPECT_EQ(after.waits, before.waits);
    // A recorded step asks for its block alone.
    if (graph == GraphMode::on) {
      EXPECT_LT(after.operations - before.operations, 40 + 6 * 60);
    }
    EXPECT_GT(seen.values().at("main/loss").sum, 0);
    EXPECT_EQ(seen.values().at("main/loss").count, seen.values().at("main/accuracy").count);
  }
}

TEST_F(DeviceTraining, WorkersOfOneProcessDoNotWait) {
  if (comm->size() > 1) GTEST_SKIP() << "one process is enough";
  const auto model = testing::small_model();
  model->to(Device::cuda(0));
  const auto optimizer = create_optimizer("momentum_sgd");
  optimizer->add_hook(gradient_lars());
  optimizer->setup(*model);
  const auto share = testing::share_of(testing::synthetic(97), nullptr);
  ParallelUpdater updater(create_shuffled_iterator(share, 24, 3), *optimizer,
                          {{*model, classification_loss(*model)}}, {});
  Evaluator evaluator(create_serial_iterator(share, 24), updater.evaluation_loss());
  const auto before = guarded_device_counts();
  Observation seen;
  for (int step = 0; step < 10; ++step) updater.update(seen);
  const Observation found = evaluator.evaluate();
  EXPECT_EQ(guarded_device_counts().waits, before.waits);
  EXPECT_EQ(found.values().at("main/loss").count, 97);
  EXPECT_GT(found.mean("main/loss").value(), 0);
  EXPECT_GT(seen.mean("main/loss").value(), 0);
}

// NCCL's exchanges are recorded on all ranks or on none. No exchange at all will do for a look at
// what is recorded.
TEST_F(DeviceTraining, StepsAreRecordedOnAllRanksAlike) {
  if (comm->size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const auto queueing = create_communicator("dummy");
  const auto recordings = [&](std::int64_t batch, bool one_refuses) {
    SmallRun::Options options = on_device(GraphMode::automatic);
    options.batch = batch;
    const SmallRun run(folder / "out", queueing.get(), options);
    // Reads a number on the host.
    if (one_refuses && comm->rank() == 1) run.optimizer->add_hook(make_host_hook());
    const auto before = guarded_device_counts().recordings;
    Observation seen;
    for (int step = 0; step < 11; ++step) run.trainer->updater().update(seen);
    return guarded_device_counts().recordings - before;
  };
  EXPECT_EQ(recordings(4, false), 1);
  EXPECT_EQ(recordings(97, false), 1);  // a rank's whole share, and one has more
  EXPECT_EQ(recordings(4, true), 0);
}

TEST_F(DeviceTraining, GoesOnFromASnapshotOfEitherKind) {
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
TEST_F(DeviceTraining, FrozenParametersAreThoseOfACpu) {
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

TEST_F(DeviceTraining, HooksOfTheDeviceAreRecordedOthersAreNot) {
  if (comm->size() > 1) GTEST_SKIP() << "exchanges through MPI are not recorded";
  const auto run = [&](SmallRun::Options options, const std::shared_ptr<OptimizerHook>& hook) {
    options.optimizer = "momentum_sgd";
    const SmallRun made(folder / "out", comm.get(), options);
    made.optimizer->add_hook(hook);
    made.trainer->run();
    return weights(made);
  };
  for (const auto& hook : {weight_decay(0.01), gradient_clipping(0.5), gradient_lars(0.01, 0.1)}) {
    const auto expected = run({}, hook), found = run(on_device(GraphMode::on), hook);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-5);
  }
  EXPECT_THROW(run(on_device(GraphMode::on), make_host_hook()), Error);
  EXPECT_EQ(run(on_device(GraphMode::automatic), make_host_hook()), run({}, make_host_hook()));
}

TEST_F(DeviceTraining, HalfTypesLearnToo) {
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
    EXPECT_EQ(half.optimizer->loss_scaler() != nullptr, dtype == DType::float16);
  }
}

// The copy that operations read follows updates, snapshots and everything else that writes weights.
TEST_F(DeviceTraining, RoundedWeightsFollowTheWeights) {
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

// What was recorded reads weights where they were: nothing of it may be repeated once they are
// elsewhere.
class Forgetting : public DeviceTraining {
 protected:
  // Losses of evaluations before and after `change`, with some steps of training between them.
  std::vector<double> losses(const SmallRun::Options& options,
                             const std::function<void(const SmallRun&)>& prepare,
                             const std::function<void(const SmallRun&)>& change) {
    const SmallRun run(folder / "out", comm.get(), options);
    prepare(run);
    auto& evaluator = run.trainer->extend(
        std::make_unique<Evaluator>(
            SmallRun::on_device(create_serial_iterator(Share::whole(testing::synthetic(40, 1)), 8),
                                options),
            classification_loss(*run.model)),
        {.name = "again"});
    std::vector<double> found;
    const auto evaluate = [&] {
      run.trainer->observation().clear();
      evaluator.run(*run.trainer);
      found.push_back(*run.trainer->observation().mean("again/main/loss"));
    };
    const auto train = [&] {
      Observation seen;
      for (int step = 0; step < 3; ++step) run.trainer->updater().update(seen);
    };
    train();
    evaluate();
    const auto before = guarded_device_counts();
    evaluate();  // repeats what the first evaluation recorded
    EXPECT_EQ(guarded_device_counts().replays - before.replays,
              options.graph == GraphMode::off ? 0 : 5);
    change(run);
    train();
    evaluate();
    train();
    evaluate();
    return found;
  }

  void expect_as_not_recorded(
      DType dtype, const std::function<void(const SmallRun&)>& change,
      const std::function<void(const SmallRun&)>& prepare = [](const SmallRun&) {}) {
    SmallRun::Options options = on_device();
    options.dtype = dtype;
    const auto expected = losses(options, prepare, change);
    options.graph = GraphMode::automatic;
    EXPECT_EQ(losses(options, prepare, change), expected);
    for (std::size_t i = 2; i < expected.size(); ++i) EXPECT_NE(expected[i], expected[i - 1]);
  }
};

TEST_F(Forgetting, OfAModelThatHasGrown) {
  expect_as_not_recorded(DType::float32, [](const SmallRun& run) {
    auto layer = std::make_unique<Linear>(4, 4);
    layer->initialize(11);
    layer->to(Device::cuda(0));
    dynamic_cast<Sequential&>(run.model->predictor()).append("l3", std::move(layer));
  });
}

TEST_F(Forgetting, OfRoundedWeightsThatAreKeptNoLonger) {
  const auto keep = [](DType type) {
    return [type](const SmallRun& run) { run.optimizer->compute_in(type); };
  };
  expect_as_not_recorded(DType::bfloat16, keep(DType::float32), keep(DType::bfloat16));
}

TEST_F(DeviceTraining, TheDeviceMeasuresItsSteps) {
  const SmallRun run(folder / "out", comm.get(), on_device(graph_of(*comm)));
  run.trainer->run();
  const StepTimes times = run.trainer->updater().times().at(0);
  EXPECT_EQ(times.steps, run.trainer->updater().iteration());
  EXPECT_GT(times.compute(), 0);
  EXPECT_GE(times.input, 0);
  EXPECT_EQ(times.exchange > 0, comm->size() > 1);
}

// Nothing waits for the device to know; a report does, and a snapshot.
TEST_F(DeviceTraining, ADivergedRunEndsAtTheNextReportOrSnapshot) {
  const auto error_with = [&](const std::string& out, auto&& extend) {
    SmallRun::Options options = on_device(graph_of(*comm));
    options.optimizer = "sgd";
    const SmallRun run(folder / out, comm.get(), options);
    run.optimizer->set("lr", 1e30);
    extend(*run.trainer);
    run.trainer->extend(std::make_unique<FailOnNonNumber>());
    return testing::error_of([&] { run.trainer->run(); });
  };
  const std::string of_report = error_with("report", [](Trainer& trainer) {
    trainer.extend(std::make_unique<LogReport>(every(5, Unit::iteration), "often"));
  });
  const std::string of_step =
      error_with("step", [](Trainer& trainer) { trainer.extend(std::make_unique<PrintSteps>(6)); });
  const std::string of_snapshot = error_with("snapshot", [](Trainer& trainer) {
    trainer.extend(std::make_unique<Snapshot>(), {.trigger = every(4, Unit::iteration)});
  });
  for (const auto& [message, found] : {std::pair{of_report, 5}, {of_step, 6}, {of_snapshot, 4}}) {
    EXPECT_NE(message.find("main/loss became "), std::string::npos) << message;
    EXPECT_NE(message.find(fmt::format("(found in iteration {})", found)), std::string::npos)
        << message;
    EXPECT_EQ(message.substr(0, message.find('(')), of_report.substr(0, of_report.find('(')));
  }
  if (comm->rank() == 0) {
    EXPECT_FALSE(std::filesystem::exists(folder / "snapshot/snapshot_iter_4"));
  }
}

// Which is that of one rank: the others are not asked.
TEST_F(DeviceTraining, ADivergedRunEndsBeforeALineOnProgress) {
  if (comm->size() > 1) GTEST_SKIP() << "one process is enough";
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> printed(std::tmpfile(), std::fclose);
  SmallRun::Options options = on_device();
  options.optimizer = "sgd";
  const SmallRun run(folder / "out", comm.get(), options);
  run.optimizer->set("lr", 1e30);
  run.trainer->extend(std::make_unique<FailOnNonNumber>(), {.name = "judge"});
  run.trainer->extend(std::make_unique<PrintProgress>(1e-9, 97, printed.get()));
  const std::string error = testing::error_of([&] { run.trainer->run(); });
  EXPECT_NE(error.find("main/loss became "), std::string::npos) << error;
  EXPECT_EQ(error.find("found in iteration"), std::string::npos) << "later: " << error;
  const std::string lines = testing::contents_of(printed.get());
  EXPECT_NE(lines.find("iteration 1, "), std::string::npos) << lines;
  for (const char* const number : {"nan", "inf"})
    EXPECT_EQ(lines.find(number), std::string::npos) << lines;
}

TEST_F(DeviceTraining, SharesThatFitLiveOnTheDevice) {
  EXPECT_TRUE(fits_on_device(10, 20));
  EXPECT_FALSE(fits_on_device(11, 20));
  const auto batches = [](std::unique_ptr<Iterator> iterator) {
    std::vector<float> all;
    for (int i = 0; i < 30; ++i) {
      const Batch batch = iterator->next();
      const Tensor x = batch["x"].to(Device::cpu());
      all.insert(all.end(), x.span<float>().begin(), x.span<float>().end());
      const Tensor t = batch["t"].to(Device::cpu());
      all.insert(all.end(), t.span<std::int32_t>().begin(), t.span<std::int32_t>().end());
    }
    return all;
  };
  const auto shuffled = [&] {
    return create_shuffled_iterator(testing::share_of(testing::synthetic(97), comm.get()), 7, 3);
  };
  const auto expected = batches(shuffled());
  EXPECT_EQ(batches(create_device_iterator(shuffled(), Device::cpu())), expected);
  const auto before = guarded_device_counts();
  EXPECT_EQ(batches(create_device_iterator(shuffled(), Device::cuda(0))), expected);
  EXPECT_GT(guarded_device_counts().operations, before.operations);
  EXPECT_EQ(batches(std::make_unique<PrefetchIterator>(shuffled())), expected);
}

// Ragged ones are as long as on a CPU, whether they live there or are copied.
TEST_F(DeviceTraining, FieldsOfAllKindsReachTheDevice) {
  const auto shuffled = [&] {
    return create_shuffled_iterator(testing::share_of(testing::sequences(23, 2), comm.get()), 4, 3);
  };
  EXPECT_EQ(resident_bytes(*testing::sequences(23, 2)), 23U * (4 * 4 + 2 * 8 + 4));
  const auto model = testing::small_model();
  model->to(Device::cuda(0));
  for (const GraphMode graph : {GraphMode::off, GraphMode::on})
    for (const bool is_resident : {true, false}) {
      SCOPED_TRACE(fmt::format("resident {}, graph {}", is_resident, static_cast<int>(graph)));
      StepRunner runner(*model, {.graph = graph, .activations = DType::bfloat16});
      const auto cpu = shuffled();
      const std::unique_ptr<Iterator> iterator =
          is_resident ? create_device_iterator(shuffled(), Device::cuda(0))
                      : std::make_unique<PrefetchIterator>(shuffled());
      const auto before = guarded_device_counts();
      for (int i = 0; i < 40; ++i) {
        const Batch expected = cpu->next(), next = runner.read(*iterator);
        EXPECT_TRUE(std::ranges::equal(next.ids(), expected.ids()));
        const auto work = [&](const Batch& found, Observation& seen) {
          EXPECT_EQ(found["tokens"].device(), Device::cuda(0));
          EXPECT_EQ(found.lengths("tokens").device(), Device::cuda(0));
          EXPECT_EQ(found["y"].dtype(), DType::float32) << "a target";
          if (graph == GraphMode::off) testing::expect_sequences(found, 2);
          const Tensor tokens = found["tokens"];
          const auto last = [](const Tensor& values) {
            return values.reshape({values.count()})
                .slice(values.count() - 1, values.count())
                .reshape({});
          };
          seen.add_sum("length", last(found.lengths("tokens")), 1);
          if (tokens.count() > 0) seen.add_sum("token", last(tokens), 1);
        };
        Observation seen;
        runner.run(next, seen, work, "");
        const Tensor lengths = expected.lengths("tokens"), tokens = expected["tokens"];
        const std::int64_t n = lengths.count(), m = tokens.count();
        EXPECT_EQ(seen.mean("length"), lengths.slice(n - 1, n).item());
        if (m > 0) {
          EXPECT_EQ(seen.mean("token"), tokens.reshape({m}).slice(m - 1, m).item());
        }
      }
      EXPECT_EQ(guarded_device_counts().replays > before.replays, graph == GraphMode::on);
    }
}

// Metrics that are no sums are computed where the model is, whatever the iterator's device.
TEST_F(DeviceTraining, GenericEvaluatorsFollowTheModel) {
  for (const bool is_resident : {true, false}) {
    for (const GraphMode graph : {GraphMode::off, graph_of(*comm)}) {
      const auto options = on_device(graph, is_resident);
      const SmallRun run(folder / "out", comm.get(), options);
      std::int64_t batches = 0;
      auto& evaluator = run.trainer->extend(
          std::make_unique<GenericEvaluator>(
              SmallRun::on_device(create_serial_iterator(
                                      testing::share_of(testing::synthetic(41, 1), comm.get()), 7),
                                  options),
              [&](const Batch& batch) {
                ++batches;
                EXPECT_EQ(batch["x"].device(), Device::cuda(0));
                EXPECT_FALSE(TrainingMode::is_training());
                const auto found = (*run.model)(Variable(batch["x"]), batch["t"]);
                EXPECT_FALSE(found.loss.requires_grad());
                return text_to_bytes(std::to_string(found.loss.value().item()));
              },
              [](const std::vector<Bytes>& results, Observation& found) {
                found.set("batches", static_cast<double>(results.size()));
              }),
          {.name = "again"});
      const auto before = guarded_device_counts();
      for (int pass = 0; pass < 2; ++pass) evaluator.run(*run.trainer);
      EXPECT_EQ(guarded_device_counts().recordings, before.recordings) << "results are the host's";
      EXPECT_GE(batches, 2 * 3);
      EXPECT_GE(*run.trainer->observation().mean("again/batches"), 6);
    }
  }
}

// Images that live on the device are augmented there, as on a CPU.
TEST_F(DeviceTraining, ImagesAreAugmentedOnTheDevice) {
  constexpr std::int64_t count = 23;
  auto stored = std::make_shared<InMemoryDataset>(classification_header(count, Shape{3, 9, 10}, 4));
  std::vector<std::byte> pixels(270);
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::size_t j = 0; j < pixels.size(); ++j)
      pixels[j] = static_cast<std::byte>((j * 31 + static_cast<std::size_t>(i) * 57) % 251);
    const auto label = static_cast<std::int32_t>(i % 4);
    const std::span<const std::byte> example[] = {pixels, std::as_bytes(std::span(&label, 1))};
    stored->set(i, i, example);
  }
  const auto shuffled = [&] {
    Share share = testing::share_of(stored, comm.get());
    share.dataset =
        transformed(share.dataset, create_transform(augmentation, stored->header().field("x"), 5));
    return create_shuffled_iterator(share, 4, 3);
  };
  const auto on_cpu = shuffled();
  const auto before = guarded_device_counts();
  const auto on_gpu = create_device_iterator(shuffled(), Device::cuda(0));
  for (int i = 0; i < 20; ++i) {
    const Batch expected = on_cpu->next(), found = on_gpu->next();
    EXPECT_TRUE(std::ranges::equal(found.ids(), expected.ids()));
    const Tensor x = found["x"].to(Device::cpu());
    EXPECT_TRUE(std::ranges::equal(x.span<float>(), expected["x"].span<float>()));
  }
  EXPECT_GT(guarded_device_counts().operations, before.operations + 40);
}

TEST_F(DeviceTraining, AddsUpSeveralBatchesAsACpuDoes) {
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

// Ranks tell each other before a step how many examples its first batch has.
TEST_F(DeviceTraining, DividesByTheExamplesOfAllBatchesOfAStep) {
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
            [&] { return softmax_cross_entropy(layer(Variable(x)), t); }, examples);
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
TEST_F(DeviceTraining, IsOneStepBehindWithDoubleBuffersAsOnACpu) {
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

TEST_F(DeviceTraining, SharesTheStatesOfTheOptimizerAsOnACpu) {
  SmallRun::Options options;
  options.sharded = true;
  const SmallRun cpu(folder / "cpu", comm.get(), options);
  cpu.trainer->run();
  SmallRun::Options there = on_device(GraphMode::automatic);
  there.sharded = true;
  const SmallRun device(folder / "device", comm.get(), there);
  device.trainer->run();
  EXPECT_EQ(device.optimizer->shards_states(), comm->size() > 1);
  EXPECT_EQ(log_without_times(device), log_without_times(cpu));
  EXPECT_EQ(weights(device), weights(cpu));
}

}  // namespace
}  // namespace tasuki
