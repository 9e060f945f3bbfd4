// Steps on a device whose memory the host cannot touch: which of them are recorded, when a
// recording is forgotten, and that none waits for the device.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "dataset/iterators/share_iterator.hpp"
#include "device_training.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "nn/recompute.hpp"
#include "nn/sequential.hpp"
#include "optimizer/hook.hpp"
#include "own_parts.hpp"
#include "printed.hpp"
#include "tests/support/errors.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/observe.hpp"
#include "training/extensions/print_progress.hpp"
#include "training/extensions/print_steps.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/standard_updater.hpp"
#include "training/workers/parallel_updater.hpp"

namespace tasuki {
namespace {

using testing::DeviceTraining;
using testing::graph_of;
using testing::guarded_device_counts;
using testing::on_device;
using testing::SmallRun;
using testing::weights;

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

// A user's iterators around the device's.
template <class Wrapper>
class OwnIterators : public DeviceTraining {};
using Wrappers = ::testing::Types<testing::Doubled, testing::Delayed>;

TYPED_TEST_SUITE(OwnIterators, Wrappers);

TYPED_TEST(OwnIterators, CanBeRecordedUnmodified) {
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

// Blocks that are computed again draw the same random numbers in each replay.
TEST_F(DeviceTraining, RecordsStepsThatRecomputeBlocks) {
  if (comm->size() > 1) GTEST_SKIP() << "one process is enough";
  const auto train = [](const SmallRun::Options& options, bool recomputes) {
    const auto model = testing::small_model();
    model->to(options.device);
    const auto optimizer = create_optimizer("momentum_sgd");
    optimizer->setup(*model);
    const auto loss = [&, recomputes](const Batch& batch, Observation&) {
      const auto block = [&](const Variable& x) { return model->predictor()(x); };
      const Variable x(batch["x"]);
      return functions::softmax_cross_entropy(recomputes ? recompute(block, x) : block(x),
                                              batch["t"]);
    };
    StandardUpdater updater(
        SmallRun::on_device(create_shuffled_iterator(Share::whole(testing::synthetic(97)), 24, 3),
                            options),
        *optimizer, loss, {.seed = 3, .graph = options.graph});
    std::vector<double> values;
    for (int step = 0; step < 12; ++step) {
      Observation seen;
      updater.update(seen);
      values.push_back(seen.mean("main/loss").value());
    }
    for (const Module::NamedBuffer& buffer : model->buffers()) {
      const Tensor host = buffer.tensor->to(DType::float32).to(Device::cpu());
      values.insert(values.end(), host.span<float>().begin(), host.span<float>().end());
    }
    return values;
  };
  const auto expected = train({}, false);
  EXPECT_EQ(train({}, true), expected);
  for (const GraphMode graph : {GraphMode::off, GraphMode::on}) {
    const auto before = guarded_device_counts();
    EXPECT_EQ(train(on_device(graph), true), expected);
    EXPECT_EQ(guarded_device_counts().replays > before.replays, graph == GraphMode::on);
  }
}

TEST_F(DeviceTraining, StepsDoNotWait) {
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
    EXPECT_GT(seen.values().at("main/loss").sum(), 0);
    EXPECT_EQ(seen.values().at("main/loss").count, seen.values().at("main/accuracy").count);
  }
}

TEST_F(DeviceTraining, WorkersDoNotWait) {
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
TEST_F(DeviceTraining, RecordsStepsAlikeOnAllRanks) {
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

TEST_F(DeviceTraining, RecordsOnlyDeviceHooks) {
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

// What was recorded reads weights where they were: nothing of it may be repeated once they are
// elsewhere.
class ForgottenRecordings : public DeviceTraining {
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

TEST_F(ForgottenRecordings, FollowModelGrowth) {
  expect_as_not_recorded(DType::float32, [](const SmallRun& run) {
    auto layer = std::make_unique<Linear>(4, 4);
    layer->initialize(11);
    layer->to(Device::cuda(0));
    dynamic_cast<Sequential&>(run.model->predictor()).append("l3", std::move(layer));
  });
}

TEST_F(ForgottenRecordings, FollowDiscardedRoundedWeights) {
  const auto keep = [](DType type) {
    return [type](const SmallRun& run) { run.optimizer->compute_in(type); };
  };
  expect_as_not_recorded(DType::bfloat16, keep(DType::float32), keep(DType::bfloat16));
}

TEST_F(DeviceTraining, MeasuresStepsOnTheDeviceOnceAsked) {
  std::int64_t steps = 0;
  const auto times_of = [&](const std::string& out, std::unique_ptr<Extension> asks) {
    const SmallRun run(folder / out, comm.get(), on_device(graph_of(*comm)));
    if (asks) run.trainer->extend(std::move(asks), {.trigger = every(1, Unit::iteration)});
    run.trainer->run();
    steps = run.trainer->updater().iteration();
    return run.trainer->updater().times();
  };
  constexpr std::int64_t late = 6;  // steps are recorded by then
  const auto asks_late = [](Trainer& trainer) {
    if (trainer.updater().iteration() == late) trainer.updater().measure_times();
  };
  const StepTimes all = times_of("all", report_step_times()).at(0),
                  last = times_of("late", make_extension("ask", asks_late)).at(0);
  EXPECT_EQ(all.steps, steps);
  EXPECT_EQ(last.steps, steps - late);
  for (const StepTimes& times : {all, last}) {
    EXPECT_GT(times.forward, 0);
    EXPECT_GT(times.backward, 0);
    EXPECT_GT(times.update, 0);
    EXPECT_GE(times.input, 0);
    EXPECT_EQ(times.exchange > 0, comm->size() > 1);
  }
  EXPECT_TRUE(times_of("unasked", nullptr).empty());
}

// Nothing waits for the device to know; a report does, and a snapshot.
TEST_F(DeviceTraining, EndsDivergedRunAtTheNextReportOrSnapshot) {
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
TEST_F(DeviceTraining, EndsDivergedRunBeforeAProgressLine) {
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

}  // namespace
}  // namespace tasuki
