// Runs that save checkpoints: what they leave, and what resumes from it.
#include "training/extensions/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint_runs.hpp"
#include "core/stop_request.hpp"
#include "same_run.hpp"
#include "saving/checkpoint.hpp"
#include "saving/output_layout.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::Checkpoints;
using ::testing::ElementsAre;
using testing::error_of;
using testing::expect_same_bits;
using testing::expect_same_run;
using ::testing::HasSubstr;
using testing::SmallRun;

TEST_F(Checkpoints, ResumeLikeTheUninterruptedRun) {
  const auto options = [](bool sharded, std::int64_t iterations) {
    return SmallRun::Options{.iterations = iterations, .units = 300, .sharded = sharded};
  };
  SmallRun whole(folder / "whole", comm.get(), options(false, 9));
  whole.trainer->run();
  for (const bool sharded : {false, true}) {
    SCOPED_TRACE(sharded ? "sharded" : "whole states");
    const std::string out = sharded ? "sharded" : "out";
    const auto first = run_of(out, options(sharded, 7), {.in_background = !sharded});
    first->trainer->run();
    EXPECT_THAT(names(out), ElementsAre("iter_3", "iter_6", "iter_7"));
    EXPECT_EQ(first->trainer->last_saved(), checkpoint(out, 7));
    EXPECT_EQ(text_of(out + "/latest"), "checkpoints/iter_7");
    for (const std::int64_t from : {6, 7}) {
      SmallRun second(folder / "second", comm.get(), options(sharded, 9));
      resume(checkpoint(out, from), *second.trainer);
      EXPECT_EQ(second.trainer->updater().iteration(), from);
      second.trainer->run();
      expect_same_run(second, whole);
    }
  }
}

// Each rank has written the states of its part; a process of its own puts them together.
TEST_F(Checkpoints, LoadShardedStatesInOneProcess) {
  const SmallRun::Options options{.iterations = 4, .units = 700, .sharded = true};
  const auto many = run_of("first", options);
  many->trainer->run();
  comm->barrier();
  for (int rank = 0; rank < comm->size(); ++rank)
    EXPECT_EQ(exists(checkpoint("first", 4) / fmt::format("optimizer.{}.npz", rank)),
              comm->size() > 1);
  SmallRun one(folder / fmt::format("alone-{}", comm->rank()), nullptr, options);
  const CheckpointReader saved(checkpoint("first", 4));
  serialize_optimizer(Serializer::loader(&saved, nullptr)["updater"]["optimizer:main"],
                      *one.optimizer);
  for (const std::string& name : one.optimizer->states().names())
    expect_same_bits(many->optimizer->states().gather(name), one.optimizer->states().gather(name),
                     name);
}

TEST_F(Checkpoints, KeepTheNewestFewAndTheBest) {
  const auto run = run_of("first", {.epochs = 5, .iterations = 20},
                          {.n_retains = 2, .keep_best = "lr"}, 5);  // the rate falls
  run->trainer->run();
  const std::int64_t steps = run->trainer->updater().steps_per_epoch();
  const std::int64_t last = run->trainer->updater().iteration();
  const std::vector<std::string> found = names("first");
  EXPECT_LE(found.size(), 3U);
  EXPECT_THAT(found, ::testing::Contains(fmt::format("iter_{}", last)));
  const std::int64_t best = last / steps * steps;
  EXPECT_EQ(text_of("first/best"), fmt::format("checkpoints/iter_{}", best));
  EXPECT_THAT(found, ::testing::Contains(fmt::format("iter_{}", best)));
}

// What is there in place of the folder keeps all checkpoints from being written.
// What is saved in between is written in the background: the best ones, and the first one of a run
// that goes on from an iteration in which none is due.
TEST_F(Checkpoints, KeepAbandonedOnesOfARevertedRun) {
  run_of("first", {.iterations = 9}, {.n_retains = 9})->trainer->run();
  const auto back = run_of("first", {.iterations = 6}, {.n_retains = 1});
  resume(checkpoint("first", 3), *back->trainer);
  back->trainer->run();
  // Those of the run that was left are not this run's to remove, if they are later.
  EXPECT_EQ(text_of("first/latest"), "checkpoints/iter_6-2");
  EXPECT_THAT(names("first"), ::testing::IsSupersetOf({"iter_6-2", "iter_9"}));
}

// Whatever it saves itself, so that a run after it does not go on from those that it has left.
TEST_F(Checkpoints, AreRecordedByAResumedRunBeforeItSaves) {
  run_of("first", {.iterations = 9})->trainer->run();
  const SmallRun back(folder / "first", comm.get(), {.iterations = 4});
  resume(checkpoint("first", 3), *back.trainer);
  std::string latest;
  back.trainer->extend(make_extension("look", [&](Trainer&) { latest = text_of("first/latest"); }));
  back.trainer->run();
  EXPECT_EQ(latest, "checkpoints/iter_3");
}

TEST_F(Checkpoints, ResumeStoppedRunsExactly) {
  SmallRun whole(folder / "whole", comm.get(), {.iterations = 9});
  whole.trainer->run();
  const auto stopped = run_of("first", {}, {}, 1000);
  stopped->trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{.at_end = true}),
                           {.trigger = at({}, Unit::epoch)});
  stopped->trainer->extend(make_extension("ask", [&](Trainer& trainer) {
    if (trainer.updater().iteration() == 5 && comm->rank() == comm->size() - 1) request_stop();
  }));
  const std::int64_t stops_after = comm->size() == 1 ? 5 : 6;
  EXPECT_EQ(error_of([&] { stopped->trainer->run(); }),
            fmt::format("stopped and saved after iteration {}; the checkpoint is {}", stops_after,
                        checkpoint("first", stops_after).string()));
  comm->barrier();
  EXPECT_FALSE(exists(folder / fmt::format("first/snapshot_iter_{}", stops_after)));
  const auto second = run_of("first", {.iterations = 9});
  resume(checkpoint("first", stops_after), *second->trainer);
  second->trainer->run();
  expect_same_run(*second, whole);
}

TEST_F(Checkpoints, HaveAPartPerReplicaSet) {
  const auto sets = std::make_shared<const ReplicaSet>(*comm, ReplicaSets{{0}});
  SmallRun whole(folder / "whole", comm.get(), {.iterations = 9});
  whole.trainer->run();
  run_of("first", {.iterations = 4}, {.replicas = sets})->trainer->run();
  comm->barrier();
  EXPECT_TRUE(exists(checkpoint("first", 4) / "state.0.npz"));
  EXPECT_EQ(exists(checkpoint("first", 4) / "state.1.npz"), comm->size() > 1);
  const auto second = run_of("first", {.iterations = 9}, {.replicas = sets});
  resume(checkpoint("first", 4), *second->trainer, sets.get());
  second->trainer->run();
  expect_same_run(*second, whole);
}

TEST_F(Checkpoints, LoadTheNewestIntactOne) {
  SmallRun whole(folder / "whole", comm.get(), {.iterations = 9});
  whole.trainer->run();
  const auto first = run_of("first", {.iterations = 7});
  EXPECT_FALSE(resume_newest(*first->trainer));
  first->trainer->run();
  comm->barrier();
  if (comm->rank() == 0) std::filesystem::resize_file(checkpoint("first", 7) / "state.npz", 99);
  comm->barrier();
  const auto second = run_of("first", {.iterations = 9});
  EXPECT_TRUE(resume_newest(*second->trainer));
  EXPECT_EQ(second->trainer->last_saved(), checkpoint("first", 6));
  second->trainer->run();
  expect_same_run(*second, whole);
  comm->barrier();
  if (comm->rank() == 0)
    for (const CheckpointName& name : checkpoints_in(folder / "first"))
      std::filesystem::remove(checkpoint_folder(folder / "first", name) / "state.npz");
  comm->barrier();
  EXPECT_THAT(error_of([&] { resume_newest(*first->trainer); }), HasSubstr("state.npz is missing"));
}

// A disk with room for three of them, of which three are to remain.
// Ranks look for each other's folders by files that they make there.
// Of the disk's room they may need all until they are complete.
// The disk takes the files only after two more iterations.
}  // namespace
}  // namespace tasuki
