// Runs that resume automatically from the newest snapshot in their folder.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "communicator/registry.hpp"
#include "same_run.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using testing::expect_same_run;
using ::testing::HasSubstr;
using testing::SmallRun;
using testing::TemporaryFolder;

class Autoload : public ::testing::Test {
 protected:
  // A run in `folder` that saves itself every other iteration and after the last.
  std::unique_ptr<SmallRun> run_until(std::optional<std::int64_t> iterations) {
    auto run = std::make_unique<SmallRun>(folder / "out", comm.get(),
                                          SmallRun::Options{.iterations = iterations});
    run->trainer->extend(
        std::make_unique<Snapshot>(Snapshot::Settings{.at_end = true, .autoload = true}),
        {.trigger = every(2, Unit::iteration)});
    run->trainer->run();
    return run;
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

TEST_F(Autoload, ResumesFromTheNewestSnapshot) {
  SmallRun whole(folder / "whole", comm.get(), {});
  whole.trainer->run();
  // With nothing there, in the middle of an epoch, and twice.
  for (const std::int64_t cut : {3, 6}) {
    const auto part = run_until(cut);
    EXPECT_EQ(part->trainer->updater().iteration(), cut);
    comm->barrier();
    EXPECT_EQ(newest_snapshot(folder / "out")->filename(), fmt::format("snapshot_iter_{}", cut));
  }
  expect_same_run(whole, *run_until(std::nullopt));
}

TEST_F(Autoload, ContinuesRevertedRunThatSavedNothing) {
  SmallRun whole(folder / "whole", comm.get(), {});
  whole.trainer->run();
  run_until(6);
  {
    SmallRun back(folder / "out", comm.get(), {});
    back.trainer->extend(std::make_unique<Snapshot>(), {.trigger = every(2, Unit::iteration)});
    resume(folder / "out/snapshot_iter_2", *back.trainer);
    back.trainer->extend(
        make_extension("failing", [](Trainer&) { throw std::runtime_error("planted"); }));
    EXPECT_THROW(back.trainer->run(), std::runtime_error);
  }
  comm->barrier();
  EXPECT_EQ(newest_snapshot(folder / "out")->filename(), "snapshot_iter_2");
  expect_same_run(whole, *run_until(std::nullopt));
}

TEST_F(Autoload, KeepsFinishedRunsFinished) {
  const auto first = run_until(std::nullopt);
  const std::int64_t iterations = first->trainer->updater().iteration();
  const auto again = run_until(std::nullopt);
  EXPECT_EQ(again->trainer->updater().iteration(), iterations);
  expect_same_run(*first, *again);
}

TEST_F(Autoload, RejectsDamagedSnapshotsOnAllRanks) {
  run_until(4);
  if (comm->rank() == 0) std::ofstream(folder / "out/snapshot_iter_4") << "no snapshot";
  comm->barrier();
  EXPECT_THAT(error_of([&] { run_until(6); }), HasSubstr("snapshot_iter_4"));
}

TEST_F(Autoload, RequiresTheIterationInTheName) {
  EXPECT_THAT(error_of([] { Snapshot({.filename = "newest", .autoload = true}); }),
              HasSubstr("\"newest\" does not contain {iteration}"));
}

}  // namespace
}  // namespace tasuki
