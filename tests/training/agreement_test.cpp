// What ranks must do alike they do alike, whatever each of them saw.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <thread>

#include "communicator/bytes.hpp"
#include "communicator/registry.hpp"
#include "communicator/text_bytes.hpp"
#include "core/file.hpp"
#include "scripted_updater.hpp"
#include "small_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/allreduce_persistent.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::ScriptedUpdater;
using testing::small_model;
using testing::SmallRun;
using testing::TemporaryFolder;

// Counts sums of float32.
class CountsSums : public Communicator {
 public:
  using Communicator::Communicator;
  int sums = 0;

 protected:
  void combine(const Tensor& values, ReduceOp op) override {
    if (values.dtype() == DType::float32) ++sums;
    Communicator::combine(values, op);
  }
};
const CommunicatorRegistration<CountsSums> registration{"counts_sums", "for a test", "any MPI"};

class AgreementOfRanks : public ::testing::Test {
 protected:
  AgreementOfRanks() { optimizer->setup(*model); }
  std::unique_ptr<Trainer> make(std::unique_ptr<Trigger> stop, ScriptedUpdater::Script script) {
    return std::make_unique<Trainer>(
        std::make_unique<ScriptedUpdater>(5, std::move(script), optimizer.get(), comm.get()),
        std::move(stop), folder / "out");
  }
  // The same text on all ranks?
  void expect_same_everywhere(const std::string& text) {
    const auto all = allgather_bytes(*comm, text_to_bytes(text));
    for (const Bytes& each : all) EXPECT_EQ(each, all[0]);
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
  int last = comm->size() - 1;
  std::unique_ptr<Classifier> model = small_model();
  std::unique_ptr<Optimizer> optimizer = create_optimizer("sgd");
};

TEST_F(AgreementOfRanks, CollectsObservationsInRankOrder) {
  Observation own;
  own.add_sum("everywhere", 0.1 * (comm->rank() + 1), 3);
  own.set("job", 7.25);
  if (comm->rank() == last) own.add_sum("only here", 5, 2);
  const Observation all = own.over_ranks(comm.get());
  double sum = 0;
  for (int rank = 0; rank <= last; ++rank) sum += 0.1 * (rank + 1);
  EXPECT_EQ(all.values().at("everywhere").sum(), sum);
  EXPECT_EQ(all.values().at("everywhere").count, 3 * comm->size());
  EXPECT_EQ(all.mean("job"), 7.25);
  EXPECT_EQ(all.mean("only here"), 2.5);
  EXPECT_EQ(all.mean("nowhere"), std::nullopt);
  EXPECT_EQ(all.values().size(), 3U);
}

// Each rank checks its own; tests/fault has a job in which a single rank does.
TEST_F(AgreementOfRanks, EndsOnDivergenceInTheSameIteration) {
  const auto trainer = make(stop_after(100), [&](std::int64_t iteration, Observation& seen) {
    seen.add_sum("main/loss", iteration >= 7 ? std::nan("") : 1.0, 1);
  });
  trainer->extend(std::make_unique<FailOnNonNumber>());
  const std::string message = error_of([&] { trainer->run(); });
  const std::string who = comm->size() > 1 ? fmt::format(" on rank {}", comm->rank()) : "";
  EXPECT_THAT(message, HasSubstr(fmt::format("main/loss became nan in iteration 7{};", who)));
  EXPECT_EQ(trainer->updater().iteration(), 7);
}

// The losses of iterations 1, 2, ... until the run ends.
TEST_F(AgreementOfRanks, TreatsExplodingLossAsDivergence) {
  struct Case {
    std::vector<double> losses;
    double max_loss;
    std::int64_t end;
  };
  const Case cases[] = {
      {{2, 2e6, 2.1e6, 2}, 1e6, 3},    {{2, 2e6, 2.1e6, 1e300}, 0, 5},  {{2, 11, 13, 15, 17}, 6, 3},
      {{1e-9, 1, 1e6, 1.1e6}, 1e6, 4},  // a solved problem may get worse
      {{0, -1e9, 9e5, 1, 1}, 1e6, 5},  {{1e200, 1e205, 1e207}, 1e6, 3},
  };
  for (const Case& c : cases) {
    const auto trainer = make(stop_after(1), [&](std::int64_t iteration, Observation& seen) {
      const auto i = std::min(static_cast<std::size_t>(iteration), c.losses.size()) - 1;
      seen.add_sum("main/loss", 10 * c.losses[i], 10);
    });
    trainer->extend(std::make_unique<FailOnNonNumber>(
        FailOnNonNumber::Settings{.max_loss = c.max_loss}, every(1, Unit::epoch)));
    const std::string message = error_of([&] { trainer->run(); });
    EXPECT_EQ(trainer->updater().iteration(), c.end) << message;
    if (c.end < 5) {
      EXPECT_THAT(message, HasSubstr(fmt::format("over {:.4g} times the first, {:.4g}, in "
                                                 "iteration {}",
                                                 c.max_loss, c.losses[0], c.end)));
    } else {
      EXPECT_EQ(message, "(nothing thrown)");
    }
  }
}

// A resumed run compares with the first loss of the first run.
TEST_F(AgreementOfRanks, SavesTheFirstLossInSnapshots) {
  const auto run = [&](std::int64_t iterations, double later) {
    auto trainer =
        make(stop_after(100, iterations), [=](std::int64_t iteration, Observation& seen) {
          seen.add_sum("main/loss", iteration == 1 ? 100 : later, 1);
        });
    trainer->extend(std::make_unique<FailOnNonNumber>(FailOnNonNumber::Settings{.max_loss = 10},
                                                      every(1, Unit::epoch)));
    return trainer;
  };
  const auto first = run(3, 1);
  first->run();
  const auto second = run(7, 999), third = run(7, 1001);
  testing::transfer(*first, *second, folder / "state");
  testing::transfer(*first, *third, folder / "state");
  EXPECT_EQ(error_of([&] { second->run(); }), "(nothing thrown)");
  EXPECT_THAT(error_of([&] { third->run(); }), HasSubstr("the first, 100, in iteration 4"));
}

TEST_F(AgreementOfRanks, DoesNotSaveBrokenModels) {
  const auto trainer = make(stop_after(1), [&](std::int64_t iteration, Observation&) {
    if (comm->rank() == last && iteration == 2)
      optimizer->arena().entries()[0].parameter->value().data<float>()[0] = NAN;
  });
  trainer->extend(std::make_unique<Snapshot>(), {.trigger = every(1, Unit::iteration)});
  trainer->extend(std::make_unique<FailOnNonNumber>());
  const std::string message = error_of([&] { trainer->run(); });
  EXPECT_THAT(message, HasSubstr("has values that are not finite in iteration 2"));
  if (comm->size() > 1) {
    EXPECT_THAT(message, HasSubstr(fmt::format(" on rank {};", last)));
  }
  expect_same_everywhere(message);
  if (comm->rank() != 0) return;  // rank 0 removes the folder
  EXPECT_TRUE(std::filesystem::exists(folder / "out/snapshot_iter_1"));
  EXPECT_FALSE(std::filesystem::exists(folder / "out/snapshot_iter_2"));
}

TEST_F(AgreementOfRanks, NamesNonFiniteParameters) {
  const auto trainer = make(stop_after(0.4), [&](std::int64_t, Observation&) {
    if (comm->rank() == last)
      optimizer->arena().entries()[1].parameter->value().data<float>()[0] = INFINITY;
  });
  trainer->extend(std::make_unique<FailOnNonNumber>());
  const std::string message = error_of([&] { trainer->run(); });
  EXPECT_THAT(message, HasSubstr(optimizer->arena().entries()[1].path + " has values"));
  EXPECT_EQ(trainer->updater().iteration(), 2);  // checked at the end, too
  expect_same_everywhere(message);
}

TEST_F(AgreementOfRanks, AcceptsHealthyRuns) {
  const auto trainer = make(
      stop_after(2), [](std::int64_t, Observation& seen) { seen.add_sum("main/loss", 1e300, 1); });
  trainer->extend(
      std::make_unique<FailOnNonNumber>(FailOnNonNumber::Settings(), every(1, Unit::iteration)));
  trainer->run();
  EXPECT_EQ(trainer->updater().iteration(), 10);
}

TEST_F(AgreementOfRanks, StopsEarlyOnAllRanks) {
  // Each rank alone would stop at another time; their sum grows until epoch 4.
  const auto script = [&](std::int64_t iteration, Observation& seen) {
    const std::int64_t epochs_done = (iteration - 1) / 5;
    const auto epoch = static_cast<double>(epochs_done);
    const double all = std::min(epoch, 3.0) * comm->size();
    const double others = comm->rank() * epoch;
    seen.add_sum("accuracy", comm->rank() == 0 ? all - epoch * last * (last + 1) / 2.0 : others, 1);
  };
  const auto trainer = make(early_stopping({.monitor = "accuracy", .patience = 2}), script);
  trainer->run();
  EXPECT_EQ(trainer->updater().epoch(), 6);
}

TEST_F(AgreementOfRanks, UsesRankZerosClock) {
  const auto trainer = make(stop_after(8), [&](std::int64_t, Observation&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(comm->rank() == 0 ? 3 : 1));
  });
  std::string fired;
  trainer->extend(make_extension("note",
                                 [&](Trainer& t) {
                                   fired += fmt::format("{} ", t.updater().iteration());
                                   comm->barrier();
                                 }),
                  {.trigger = every_seconds(0.02)});
  trainer->run();
  EXPECT_FALSE(fired.empty());
  expect_same_everywhere(fired);
}

TEST_F(AgreementOfRanks, RejectsDifferentExtensions) {
  const auto trainer = make(stop_after(1), {});
  trainer->extend(std::make_unique<LogReport>());
  if (comm->rank() == last) trainer->extend(std::make_unique<FailOnNonNumber>());
  const std::string message = error_of([&] { trainer->run(); });
  expect_same_everywhere(message);
  if (comm->size() == 1) {
    EXPECT_EQ(message, "(nothing thrown)");
  } else {
    EXPECT_THAT(message, ::testing::StartsWith(fmt::format("rank {} on ", last)));
    EXPECT_THAT(message, HasSubstr("\"extension FailOnNonNumber\" where rank 0 has"));
  }
}

// They would drift apart unnoticed, or wait for each other in the last epoch.
TEST_F(AgreementOfRanks, RejectsDifferentSettingsBeforeTheFirstStep) {
  using Options = SmallRun::Options;
  const int shards = 2 * comm->size();
  const std::string dealt = fmt::format("\"data in {} shards\" where rank 0 has ", shards);
  const std::pair<Options, std::string> cases[] = {
      {{.batch = 8}, "\"a global batch of "},
      {{.seed = 4}, "\"seed 4\" where rank 0 has \"seed 3\""},
      {{.examples = 98}, "\"data of 98 examples\" where rank 0 has \"data of 97 examples\""},
      {{.shards = shards}, dealt},
      {{.epochs = 4}, "\"an end after 4 epochs\" where rank 0 has \"an end after 3 epochs\""},
      {{.iterations = 5}, "\"an end after 5 iterations\" where rank 0 has \"nothing more\""},
  };
  for (const auto& [other, difference] : cases) {
    SmallRun run(folder / "out", comm.get(), comm->rank() == last ? other : Options());
    const std::string message = error_of([&] { run.trainer->run(); });
    expect_same_everywhere(message);
    if (comm->size() == 1) {
      EXPECT_EQ(message, "(nothing thrown)");
      continue;
    }
    EXPECT_THAT(message, ::testing::StartsWith(fmt::format("rank {} on ", last)));
    EXPECT_THAT(message, HasSubstr(difference));
    EXPECT_EQ(run.trainer->updater().iteration(), 0);
  }
}

TEST_F(AgreementOfRanks, StopsAllRanksOnAnUnusableOutputFolder) {
  if (comm->rank() == 0) write_file(folder / "out", "in the way");
  const auto trainer = make(stop_after(1), {});
  const std::string message = error_of([&] { trainer->run(); });
  EXPECT_THAT(message, HasSubstr("cannot make output folder"));
  expect_same_everywhere(message);
}

struct WithStatistics : Module {
  Tensor &mean, &variance, &count;
  WithStatistics(double value, std::int32_t n)
      : mean(add_buffer("avg_mean", Tensor::full(Shape{3}, value))),
        variance(add_buffer("avg_var", Tensor::full(Shape{2, 2}, value))),
        count(add_buffer("N", Tensor::full(Shape{}, n, DType::int32))),
        w(add_parameter("W", Shape{2},
                        [](const Tensor& t, std::uint64_t, std::uint64_t) { t.fill(1); })) {
    initialize(0);
  }
  Parameter& w;
};

TEST_F(AgreementOfRanks, AveragesRunningStatisticsInOneMessage) {
  const auto counts = create_communicator("counts_sums");
  WithStatistics statistics(0, comm->rank());
  const auto sgd = create_optimizer("sgd");
  sgd->setup(statistics);
  statistics.mean.fill(2.0 * comm->rank());
  statistics.variance.fill(4.0 * comm->rank());
  Trainer trainer(std::make_unique<ScriptedUpdater>(1, nullptr, sgd.get(), counts.get()),
                  stop_after(1), folder / "out");
  trainer.extend(allreduce_persistent());
  trainer.run();
  for (const float value : statistics.mean.span<float>()) EXPECT_FLOAT_EQ(value, last);
  for (const float value : statistics.variance.span<float>()) EXPECT_FLOAT_EQ(value, 2 * last);
  EXPECT_EQ(statistics.count.item(), comm->rank());
  EXPECT_EQ(dynamic_cast<const CountsSums&>(*counts).sums, comm->size() == 1 ? 0 : 1);
}

TEST_F(AgreementOfRanks, IgnoresRunningStatisticsWithoutExamples) {
  WithStatistics statistics(0, comm->rank());
  const auto sgd = create_optimizer("sgd");
  sgd->setup(statistics);
  statistics.mean.fill(comm->rank() == 0 ? 5 : 100);
  auto updater = std::make_unique<ScriptedUpdater>(1, nullptr, sgd.get(), comm.get());
  updater->has_seen = comm->rank() == 0;
  Trainer trainer(std::move(updater), stop_after(1), folder / "out");
  trainer.extend(allreduce_persistent());
  trainer.run();
  for (const float value : statistics.mean.span<float>()) EXPECT_FLOAT_EQ(value, 5);

  SmallRun run(folder / "out", comm.get(), {.examples = 2});
  EXPECT_FALSE(run.trainer->updater().has_seen_examples());
  run.trainer->run();
  const bool has_some = testing::share_of(testing::synthetic(2), comm.get()).dataset->size() > 0;
  EXPECT_EQ(run.trainer->updater().has_seen_examples(), has_some);
}

}  // namespace
}  // namespace tasuki
