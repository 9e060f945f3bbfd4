// Trainings that are asked to stop: all ranks do so together, and what was saved goes on as if they
// had not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

#include "communicator/registry.hpp"
#include "core/stop_request.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "same_run.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/evaluator.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"
#include "training/standard_updater.hpp"
#include "training/workers/parallel_updater.hpp"

namespace tasuki::testing {
namespace {

constexpr std::int64_t asked_in = 5;  // in the middle of an epoch on any number of ranks

struct Case {
  const char* name;
  int shards = 0;
  bool lazy = false;
  bool saves_itself = false;  // by one of its extensions
};

class StoppedRuns : public ::testing::TestWithParam<Case> {
 protected:
  SmallRun start(const std::string& out, Communicator& comm) {
    SmallRun run(folder / out, &comm, {.lazy = GetParam().lazy, .shards = GetParam().shards});
    Snapshot::Settings naming;
    naming.filename = "of_extension_{iteration}";
    if (GetParam().saves_itself) {
      run.trainer->extend(std::make_unique<Snapshot>(naming), {.trigger = at({}, Unit::epoch)});
    }
    return run;
  }

  std::unique_ptr<Communicator> comm = create_communicator("auto");
  TemporaryFolder folder{comm.get()};
};

// Sends the signal on the last rank alone.
void ask_in(Trainer& trainer, std::int64_t iteration) {
  trainer.extend(make_extension("ask", [iteration](Trainer& training) {
    const Communicator* const comm = training.communicator();
    if (training.updater().iteration() == iteration && comm->rank() == comm->size() - 1)
      kill(getpid(), SIGUSR1);
  }));
}

std::string message_of(Trainer& trainer) {
  try {
    trainer.run();
  } catch (const Stopped& stopped) {
    EXPECT_EQ(stopped.exit_code(), 79);
    return stopped.what();
  }
  return "it was not stopped";
}

TEST_P(StoppedRuns, ResumeLikeUninterruptedRuns) {
  const SmallRun undisturbed = start("undisturbed", *comm);
  undisturbed.trainer->run();

  // The exchange of the next step says it to the others.
  const std::int64_t stops_after = comm->size() == 1 ? asked_in : asked_in + 1;
  const char* const name = GetParam().saves_itself ? "of_extension" : "snapshot_iter";
  const std::string file = folder / fmt::format("stopped/{}_{}", name, stops_after);
  {
    const SmallRun stopped = start("stopped", *comm);
    ask_in(*stopped.trainer, asked_in);
    EXPECT_EQ(
        message_of(*stopped.trainer),
        fmt::format("stopped and saved after iteration {}; the snapshot is {}", stops_after, file));
    EXPECT_FALSE(stop_requested());
  }
  const SmallRun second = start("stopped", *comm);
  resume(file, *second.trainer);
  EXPECT_EQ(second.trainer->updater().iteration(), stops_after);
  second.trainer->run();
  expect_same_run(second, undisturbed);
}

INSTANTIATE_TEST_SUITE_P(All, StoppedRuns,
                         ::testing::Values(Case{.name = "Plain"},
                                           Case{.name = "Shards", .shards = 8},
                                           Case{.name = "Lazy", .lazy = true},
                                           Case{.name = "Extension", .saves_itself = true}),
                         [](const auto& info) { return std::string(info.param.name); });

// Nothing is exchanged in its steps.
TEST(StopRequest, TakesEffectAtTheEpochsEndWithoutExchanges) {
  const auto comm = create_communicator("dummy");
  const TemporaryFolder folder(comm.get());
  const SmallRun run(folder / "out", comm.get(), {});
  ask_in(*run.trainer, asked_in);
  const std::int64_t epoch = run.trainer->updater().steps_per_epoch();
  const std::int64_t stops_after =
      comm->size() == 1 ? asked_in : (asked_in + epoch - 1) / epoch * epoch;
  EXPECT_EQ(message_of(*run.trainer)
                .find(fmt::format("stopped and saved after iteration {};", stops_after)),
            0U);
}

// The last step of a run is its end anyway.
TEST(StopRequest, IsIgnoredInTheLastStep) {
  const auto comm = create_communicator("auto");
  const TemporaryFolder folder(comm.get());
  const SmallRun run(folder / "out", comm.get(), {.iterations = 5});
  ask_in(*run.trainer, 5);
  EXPECT_NO_THROW(run.trainer->run());
  EXPECT_FALSE(can_stop());
  // Nor do they end the process afterwards.
  kill(getpid(), SIGUSR1);
  EXPECT_FALSE(stop_requested());
}

// With the model and the optimizer of another run, and without extensions.
std::unique_ptr<Trainer> bare_trainer(const SmallRun& run, Communicator& comm,
                                      const std::filesystem::path& out) {
  return std::make_unique<Trainer>(
      std::make_unique<StandardUpdater>(
          create_shuffled_iterator(share_of(synthetic(97), &comm), 7, 1), *run.optimizer,
          classification_loss(*run.model)),
      stop_after(100, 8), out);
}

TEST(StopRequest, DoesNotAffectTheNextTraining) {
  const auto comm = create_communicator("auto");
  const TemporaryFolder folder(comm.get());
  const SmallRun run(folder / "out", comm.get(), {});
  ask_in(*run.trainer, asked_in);
  EXPECT_NE(message_of(*run.trainer), "it was not stopped");

  const auto next = bare_trainer(run, *comm, folder / "next");
  EXPECT_EQ(message_of(*next), "it was not stopped");
  EXPECT_EQ(next->updater().iteration(), 8);
}

// The trainer saves, as there is no numbered Snapshot.
TEST(StopRequest, RecreatesRemovedFolder) {
  const auto comm = create_communicator("auto");
  const TemporaryFolder folder(comm.get());
  const SmallRun run(folder / "out", comm.get(), {});
  const auto trainer = bare_trainer(run, *comm, folder / "bare");
  trainer->extend(make_extension("remove", [&](Trainer& training) {
    if (training.is_root()) std::filesystem::remove_all(folder / "bare");
  }));
  ask_in(*trainer, asked_in);
  const std::string message = message_of(*trainer);
  const std::string file = message.substr(message.rfind(' ') + 1);
  EXPECT_NE(file.find("snapshot_iter_"), std::string::npos) << message;
  if (comm->rank() == 0) {
    EXPECT_TRUE(std::filesystem::exists(file)) << message;
  }
}

// Work that takes long at the end of a run comes after the snapshot, and can be left out.
TEST(StopRequest, SavesBeforeExtensionsFinish) {
  struct LongWork final : Extension {
    std::string default_name() const override { return "long_work"; }
    int priority() const override { return priority_snapshot - 1; }
    void run(Trainer&) override {}
    void finalize(Trainer& trainer) override {
      comes_after_saving = std::filesystem::exists(trainer.last_saved());
      is_stopped = trainer.is_stopped();
    }
    bool comes_after_saving = false, is_stopped = false;
  };
  const auto comm = create_communicator("auto");
  const TemporaryFolder folder(comm.get());
  for (const bool saves_itself : {true, false}) {
    const SmallRun run(folder / "out", comm.get(), {});
    const auto trainer = bare_trainer(run, *comm, folder / "bare");
    if (saves_itself) trainer->extend(std::make_unique<Snapshot>());
    auto& work = trainer->extend(std::make_unique<LongWork>());
    ask_in(*trainer, 2);
    EXPECT_NE(message_of(*trainer), "it was not stopped");
    EXPECT_TRUE(work.comes_after_saving) << saves_itself;
    EXPECT_TRUE(work.is_stopped);
  }
}

// Those that come during an evaluation are taken after it.
TEST(StopRequest, WaitsForTheEndOfAnEvaluation) {
  const auto comm = create_communicator("auto");
  const TemporaryFolder folder(comm.get());
  const SmallRun run(folder / "out", comm.get(), {});
  int batches = 0;
  const LossFunction loss = classification_loss(*run.model);
  run.trainer->extend(
      std::make_unique<Evaluator>(create_serial_iterator(share_of(synthetic(41, 1), nullptr), 7),
                                  [&](const Batch& batch, Observation& report) {
                                    if (++batches == 2) kill(getpid(), SIGUSR1);
                                    return loss(batch, report);
                                  }),
      {.name = "asking"});
  const std::int64_t epoch = run.trainer->updater().steps_per_epoch();
  const std::int64_t stops_after = comm->size() == 1 ? epoch : epoch + 1;
  EXPECT_EQ(message_of(*run.trainer)
                .find(fmt::format("stopped and saved after iteration {};", stops_after)),
            0U);
  EXPECT_EQ(batches, 6);
}

// Each rank's workers share one request.
TEST(StopRequest, EndsTrainingWithSeveralWorkers) {
  const auto comm = create_communicator("auto");
  const TemporaryFolder folder(comm.get());
  const auto first = small_model(), second = small_model(8, 6);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *comm);
  optimizer->setup(*first);
  ParallelUpdater::Settings settings;
  settings.split = BatchSplit::even(2);
  Trainer trainer(
      std::make_unique<ParallelUpdater>(
          create_shuffled_iterator(share_of(synthetic(97), comm.get()), 8, 3), *optimizer,
          std::vector<ParallelUpdater::Worker>{{*first, classification_loss(*first)},
                                               {*second, classification_loss(*second)}},
          settings),
      stop_after(3), folder / "out");
  ask_in(trainer, 2);
  const int stops_after = comm->size() == 1 ? 2 : 3;
  EXPECT_EQ(
      message_of(trainer).find(fmt::format("stopped and saved after iteration {};", stops_after)),
      0U);
}

}  // namespace
}  // namespace tasuki::testing
