// Checkpoints on disks that are slow, full or cannot be written or read, and when they are written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <fstream>
#include <mutex>
#include <thread>

#include "checkpoint_runs.hpp"
#include "communicator/bytes.hpp"
#include "core/log.hpp"
#include "core/stop_request.hpp"
#include "saving/output_layout.hpp"
#include "tests/support/no_more_files.hpp"
#include "tests/support/watched_folder.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/resume.hpp"

// A disk that is ready only when training has reached an iteration, for fsync calls of the
// library's other threads.
namespace slow_disk {
namespace {

std::mutex mutex;
std::condition_variable changed;
std::int64_t iteration = 0, opens_at = 0;
std::chrono::milliseconds delay{0};               // of each call
bool is_waited_for = false, was_in_vain = false;  // because training did not go on
const std::thread::id training = std::this_thread::get_id();

void reached(std::int64_t done) {
  const std::lock_guard lock(mutex);
  iteration = done;
  changed.notify_all();
}

void open_at(std::int64_t later) {
  const std::lock_guard lock(mutex);
  opens_at = later;
}

void wait_for_writer() {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, std::chrono::seconds(10), [] { return is_waited_for; });
}

void wait() {
  if (std::this_thread::get_id() == training) return;
  std::unique_lock lock(mutex);
  changed.wait_for(lock, delay, [] { return false; });
  is_waited_for = is_waited_for || iteration < opens_at;
  changed.notify_all();
  if (!changed.wait_for(lock, std::chrono::seconds(10), [] { return iteration >= opens_at; }))
    was_in_vain = true;
}

}  // namespace
}  // namespace slow_disk

// In place of the C library's.
extern "C" int fsync(int file) {
  slow_disk::wait();
  return static_cast<int>(syscall(SYS_fsync, file));
}

namespace tasuki {
namespace {

using testing::Checkpoints;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::SmallRun;
using ::testing::UnorderedElementsAre;
using testing::WatchedFolder;

TEST_F(Checkpoints, WarnUntilTheEndWhenUnwritable) {
  const std::filesystem::path obstacle = folder / "first/checkpoints";
  const auto run = [&](std::int64_t removed_in) {
    if (comm->rank() == 0) {
      std::filesystem::remove_all(folder / "first");
      std::filesystem::create_directories(folder / "first");
      std::ofstream(obstacle) << "in the way";
    }
    comm->barrier();
    const auto made = run_of("first", {.iterations = 8}, {.in_background = false});
    made->trainer->extend(make_extension("clear", [&](Trainer& trainer) {
      if (trainer.updater().iteration() == removed_in && comm->rank() == 0)
        std::filesystem::remove(obstacle);
    }));
    made->trainer->extend(std::make_unique<Snapshot>(Snapshot::Settings{.at_end = true}),
                          {.trigger = at({}, Unit::epoch)});
    made->trainer->run();
  };
  run(5);
  EXPECT_THAT(names("first"), ElementsAre("iter_6", "iter_8"));
  EXPECT_THAT(error_of([&] { run(100); }), HasSubstr("first/checkpoints"));
  comm->barrier();
  EXPECT_TRUE(exists(folder / "first/snapshot_iter_8")) << "the trained model is lost";
}

TEST_F(Checkpoints, FallBackToASnapshotWhenStopped) {
  if (comm->rank() == 0) {
    std::filesystem::create_directories(folder / "first");
    std::ofstream(folder / "first/checkpoints") << "in the way";
  }
  comm->barrier();
  for (const bool has_snapshot : {false, true}) {
    const auto stopped = run_of("first", {}, {}, 1000);
    if (has_snapshot) stopped->trainer->extend(std::make_unique<Snapshot>());
    stopped->trainer->extend(make_extension("ask", [&](Trainer& trainer) {
      if (trainer.updater().iteration() == 5 && comm->rank() == comm->size() - 1) request_stop();
    }));
    const std::int64_t stops_after = comm->size() == 1 ? 5 : 6;
    const std::filesystem::path file = folder / fmt::format("first/snapshot_iter_{}", stops_after);
    EXPECT_EQ(error_of([&] { stopped->trainer->run(); }),
              fmt::format("stopped and saved after iteration {}; the snapshot is {}", stops_after,
                          file.string()));
    comm->barrier();
    EXPECT_TRUE(exists(file));
    comm->barrier();
    if (comm->rank() == 0) std::filesystem::remove(file);
    comm->barrier();
  }
}

TEST_F(Checkpoints, BoundTheStepsToRepeat) {
  constexpr std::int64_t limit = 4;
  for (const std::int64_t start : {0, 6}) {
    const auto run = run_of(
        "first", {.iterations = start == 0 ? 6 : 30},
        {.n_retains = 99, .keep_best = start == 0 ? "" : "lr", .max_lost_iterations = limit}, 4);
    if (start > 0) resume(checkpoint("first", start), *run->trainer);
    std::int64_t most = 0;
    run->trainer->extend(make_extension(
        "look",
        [&](Trainer& trainer) {
          const auto found = checkpoints_in(folder / "first");
          const std::int64_t last = found.empty() ? 0 : found.front().iteration;
          most = std::max(most, trainer.updater().iteration() - last);
        },
        Extension::priority_writer));
    slow_disk::delay = std::chrono::milliseconds(20);
    run->trainer->run();
    slow_disk::delay = std::chrono::milliseconds(0);
    EXPECT_EQ(most, limit) << "from iteration " << start;
    comm->barrier();
  }
}

TEST_F(Checkpoints, AreNotSkippedWhenUnreadable) {
  run_of("first", {.iterations = 7})->trainer->run();
  comm->barrier();
  const auto second = run_of("first", {.iterations = 9});
  // With one file it fails after the list and the manifest, where the state is opened.
  for (const int left : {0, 1}) {
    const auto error = [&] {
      const testing::NoMoreFiles none(comm->rank() == 0, left);
      return testing::caught([&] { resume_newest(*second->trainer); });
    }();
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::io);
    EXPECT_THAT(error->what(), HasSubstr("Too many open files"));
    EXPECT_THAT(error->what(), HasSubstr(left == 0 ? "first/checkpoints: "
                                                   : "first/checkpoints/iter_7/state.npz: "));
    EXPECT_EQ(
        std::string(error->what()).find("; it may be intact: try again, or") != std::string::npos,
        left == 1);
  }
}

TEST_F(Checkpoints, MakeRoomForLaterOnes) {
  for (const std::string way : {"background", "foreground", "sharded", "divided"}) {
    SCOPED_TRACE(way);
    const auto run = [&](const std::string& out, double period) {
      Checkpoint::Settings settings{.in_background = way != "foreground"};
      if (way == "divided")
        settings.replicas = std::make_shared<const ReplicaSet>(*comm, ReplicaSets{{0}});
      run_of(out, {.examples = 970, .iterations = 12, .units = 900, .sharded = way == "sharded"},
             std::move(settings), period)
          ->trainer->run();
      comm->barrier();
    };
    run("measured", 12);
    const std::filesystem::path disk = folder / "first";
    bool is_mounted = true;
    if (comm->rank() == 0) {
      std::uintmax_t bytes = 0;
      for (const auto& file : std::filesystem::directory_iterator(checkpoint("measured", 12)))
        bytes += file.file_size();
      std::filesystem::remove_all(folder / "measured");
      std::filesystem::create_directories(disk);
      const std::string options = fmt::format("size={}", bytes * 7 / 2);
      is_mounted = mount("tmpfs", disk.c_str(), "tmpfs", 0, options.c_str()) == 0;
    }
    if (bcast_bytes(*comm, Bytes(is_mounted ? 1 : 0)).empty())
      GTEST_SKIP() << "file systems can be mounted as root only";
    ::testing::internal::CaptureStderr();
    run("first", 2);
    const std::string said = ::testing::internal::GetCapturedStderr();
    if (comm->rank() == 0) {
      EXPECT_THAT(names_in(disk / "checkpoints"), UnorderedElementsAre("iter_10", "iter_12"));
      EXPECT_THAT(said,
                  HasSubstr("no room for the checkpoint of iteration 8 beside the older ones; "
                            "removed iter_4, iter_2 from " +
                            disk.string()));
      EXPECT_EQ(said.find("removed iter_"), said.rfind("removed iter_")) << said;
      // Of the log that may be written while a checkpoint has all the room this does not matter.
      EXPECT_EQ(said.find("cannot write " + (disk / "checkpoints").string()), said.npos) << said;
      EXPECT_EQ(umount(disk.c_str()), 0);
    }
    comm->barrier();
  }
}

TEST_F(Checkpoints, LookForACommonFolderOnce) {
  const std::filesystem::path watched = folder / "first/checkpoints";
  if (comm->rank() == 0) std::filesystem::create_directories(watched);
  comm->barrier();
  const WatchedFolder folder_of_all(watched, IN_CREATE);
  run_of("first", {.iterations = 9, .sharded = true})->trainer->run();
  comm->barrier();
  const auto probes = std::ranges::count_if(
      folder_of_all.names(), [](const std::string& name) { return name.starts_with("writer."); });
  EXPECT_EQ(names("first").size(), 3U);
  EXPECT_EQ(probes, comm->size() > 1 ? comm->size() : 0);
}

TEST_F(Checkpoints, AreAnnouncedOnceComplete) {
  const auto run = run_of("first", {.iterations = 8}, {}, 4);
  std::string said;
  run->trainer->extend(make_extension(
      "look",
      [&](Trainer& trainer) {
        if (!trainer.is_root()) return;
        const std::int64_t iteration = trainer.updater().iteration();
        while (iteration == 5 && !exists(folder / "first/latest"))
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (iteration == 5) std::this_thread::sleep_for(std::chrono::milliseconds(100));
        if (iteration == 7) said = ::testing::internal::GetCapturedStderr();
      },
      Extension::priority_writer));
  configure_log(comm->rank(), LogLevel::verbose);
  if (comm->rank() == 0) ::testing::internal::CaptureStderr();
  run->trainer->run();
  configure_log(comm->rank(), LogLevel::info);
  const std::string expected = "saved " + checkpoint("first", 4).string() + ": training paused";
  EXPECT_EQ(said.find(expected) != said.npos, comm->rank() == 0) << said;
}

TEST_F(Checkpoints, AreCompletedBeforeOtherFinalFiles) {
  struct LastWords : Extension {
    std::string default_name() const override { return "last_words"; }
    void run(Trainer&) override {}
    void finalize(Trainer& trainer) override {
      if (trainer.is_root()) is_found = exists(latest);
    }
    std::filesystem::path latest;
    bool is_found = true;
  };
  const auto run = run_of("first", {.iterations = 4}, {}, 4);
  auto words = std::make_unique<LastWords>();
  const LastWords& last = *words;
  words->latest = folder / "first/latest";
  run->trainer->extend(std::move(words));
  slow_disk::delay = std::chrono::milliseconds(50);
  run->trainer->run();
  slow_disk::delay = std::chrono::milliseconds(0);
  EXPECT_TRUE(last.is_found);
}

TEST_F(Checkpoints, AreWrittenInTheBackground) {
  const auto run = run_of("first", {.iterations = 12}, {}, 4);
  run->trainer->extend(make_extension("count", [&](Trainer& trainer) {
    if (trainer.updater().iteration() == 4) slow_disk::open_at(6);
    if (trainer.updater().iteration() == 5 && trainer.is_root()) slow_disk::wait_for_writer();
    slow_disk::reached(trainer.updater().iteration());
  }));
  run->trainer->run();
  EXPECT_EQ(slow_disk::is_waited_for, comm->rank() == 0);
  EXPECT_FALSE(slow_disk::was_in_vain) << "training waited for the disk";
  EXPECT_THAT(names("first"), ElementsAre("iter_12", "iter_4", "iter_8"));
}

}  // namespace
}  // namespace tasuki
