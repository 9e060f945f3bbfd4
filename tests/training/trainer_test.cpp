// The trainer's loop: names, order, what runs when, what stops it.
#include "training/trainer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "core/file.hpp"
#include "scripted_updater.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/forked_child.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/log_report.hpp"
#include "training/extensions/snapshot.hpp"

namespace tasuki {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::note_iterations;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;

class TrainerTest : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(std::int64_t iterations, ScriptedUpdater::Script script = {}) {
    return std::make_unique<Trainer>(std::make_unique<ScriptedUpdater>(3, std::move(script)),
                                     stop_after(1e9, iterations), folder / "out");
  }
  TemporaryFolder folder;
};

TEST_F(TrainerTest, NumbersDuplicateNames) {
  const auto trainer = make(1);
  const auto nothing = [](Trainer&) {};
  for (int i = 0; i < 3; ++i) trainer->extend(make_extension("same", nothing));
  trainer->extend(make_extension("same", nothing), {.name = "other"});
  trainer->extend(std::make_unique<LogReport>());
  EXPECT_THAT(trainer->extension_names(),
              ElementsAre("same", "same_1", "same_2", "other", "LogReport"));
  EXPECT_NE(trainer->find_extension("same_2"), nullptr);
  EXPECT_EQ(trainer->find_extension("same_3"), nullptr);
  EXPECT_EQ(trainer->name_of(*trainer->find_extension("same_1")), "same_1");
}

TEST_F(TrainerTest, RunsExtensionsByPriorityThenOrder) {
  const auto trainer = make(1);
  std::vector<std::string> order;
  const auto add = [&](const std::string& name, int priority,
                       std::optional<int> attached_with = std::nullopt) {
    trainer->extend(make_extension(
                        name, [&order, name](Trainer&) { order.push_back(name); }, priority),
                    {.priority = attached_with});
  };
  add("snapshot", Extension::priority_snapshot);
  add("reader 1", Extension::priority_reader);
  add("editor", Extension::priority_editor);
  add("reader 2", Extension::priority_reader);
  add("writer", Extension::priority_writer);
  add("made first", Extension::priority_reader, 1000);
  trainer->run();
  EXPECT_THAT(order,
              ElementsAre("made first", "writer", "editor", "reader 1", "reader 2", "snapshot"));
}

TEST_F(TrainerTest, ObservesEachIterationSeparately) {
  const auto trainer = make(3, [](std::int64_t iteration, Observation& observation) {
    observation.set(iteration == 2 ? "even" : "odd", static_cast<double>(iteration));
  });
  std::vector<std::size_t> sizes;
  trainer->extend(make_extension(
      "count", [&](Trainer& t) { sizes.push_back(t.observation().values().size()); }));
  trainer->run();
  EXPECT_THAT(sizes, ElementsAre(1, 1, 1));
  EXPECT_EQ(trainer->observation().mean("odd"), 3.0);
}

TEST_F(TrainerTest, InitializesAndFinalizesByPriority) {
  struct Recorder : Extension {
    Recorder(std::string name, int priority, std::vector<std::string>& log)
        : name_(std::move(name)), priority_(priority), log_(log) {}
    std::string default_name() const override { return name_; }
    int priority() const override { return priority_; }
    void initialize(Trainer&) override { log_.push_back("initialize " + name_); }
    void run(Trainer&) override { log_.push_back("run " + name_); }
    void finalize(Trainer&) override { log_.push_back("finalize " + name_); }
    std::string name_;
    int priority_;
    std::vector<std::string>& log_;
  };
  const auto trainer = make(1);
  std::vector<std::string> log;
  trainer->extend(std::make_unique<Recorder>("b", 1, log));
  trainer->extend(std::make_unique<Recorder>("a", 2, log));
  trainer->run();
  EXPECT_THAT(log, ElementsAre("initialize a", "initialize b", "run a", "run b", "finalize a",
                               "finalize b"));
}

TEST_F(TrainerTest, PropagatesExceptions) {
  const auto trainer = make(10);
  std::vector<std::int64_t> ran;
  trainer->extend(note_iterations(ran));
  trainer->extend(make_extension("broken", [](Trainer& t) {
    if (t.updater().iteration() == 4) throw std::runtime_error("out of paper");
  }));
  EXPECT_THROW(trainer->run(), std::runtime_error);
  EXPECT_THAT(ran, ElementsAre(1, 2, 3, 4));
}

// A host program may fork its workers, and train there without run_job.
TEST_F(TrainerTest, PropagatesExceptionsInAForkedProcess) {
  EXPECT_EQ(testing::status_of_child([&] {
              const auto trainer = make(10);
              trainer->extend(make_extension(
                  "broken", [](Trainer&) { throw std::runtime_error("out of paper"); }));
              try {
                trainer->run();
              } catch (const std::runtime_error&) {
                return;
              }
              _exit(1);
            }),
            0);
}

TEST_F(TrainerTest, RejectsUnusableOutputFolderBeforeTraining) {
  write_file(folder / "out", "a file is in the way");
  bool trained = false;
  const auto trainer = make(1, [&](std::int64_t, Observation&) { trained = true; });
  EXPECT_THAT(error_of([&] { trainer->run(); }), HasSubstr((folder / "out").string()));
  EXPECT_FALSE(trained);
}

TEST_F(TrainerTest, StopsElapsedTimeAfterTheRun) {
  const auto trainer = make(1, [](std::int64_t, Observation&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  EXPECT_EQ(trainer->elapsed_time(), 0);
  trainer->run();
  const double after = trainer->elapsed_time();
  EXPECT_GE(after, 0.02);
  EXPECT_EQ(trainer->elapsed_time(), after);
}

TEST(SnapshotNames, NewestHasTheHighestIteration) {
  const TemporaryFolder folder;
  EXPECT_EQ(newest_snapshot(folder.path()), std::nullopt);
  EXPECT_EQ(newest_snapshot(folder / "nowhere"), std::nullopt);
  for (const char* name : {"snapshot_iter_9", "snapshot_iter_100", "snapshot_iter_200.tmp",
                           "snapshot_iter_", "snapshot_iter_1000x", "model_iter_5000"})
    write_file(folder / name, "x");
  EXPECT_EQ(newest_snapshot(folder.path()), folder / "snapshot_iter_100");
  EXPECT_EQ(newest_snapshot(folder.path(), "model_iter_{iteration}"), folder / "model_iter_5000");
}

}  // namespace
}  // namespace tasuki
