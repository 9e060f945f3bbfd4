// What goes wrong while a checkpoint is written or removed: there is a whole one or none, and older
// ones remain.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <random>

#include "core/file.hpp"
#include "saving/retention.hpp"
#include "tests/support/temporary_folder.hpp"
#include "written_checkpoints.hpp"

namespace {
int removals_until_killed = -1;  // never

void count_removal() {
  if (removals_until_killed >= 0 && removals_until_killed-- == 0) std::raise(SIGKILL);
}
}  // namespace

// In the C library's place.
extern "C" int unlinkat(int folder, const char* path, int flags) noexcept {
  count_removal();
  return static_cast<int>(syscall(SYS_unlinkat, folder, path, flags));
}
extern "C" int remove(const char* path) noexcept {
  count_removal();
  if (syscall(SYS_unlinkat, AT_FDCWD, path, 0) == 0) return 0;
  if (errno != EISDIR) return -1;
  return static_cast<int>(syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::Each;
using ::testing::HasSubstr;

// The exit status of a child that does this.
template <class Work>
int status_of_child(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    std::raise(SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(KilledWriter, LeavesNewCheckpointWholeOrAbsent) {
  constexpr int steps = 5;
  for (int done = 0; done <= steps; ++done) {
    const TemporaryFolder out;
    write_alone(out.path(), 10, 1);
    const int status = status_of_child([&] {
      CheckpointWriter writer({.out = out.path(), .iteration = 20, .epoch = 1, .parts = 1});
      if (done > 0) writer.make_folder();
      if (done > 1) writer.write_files({"", state_from(2), {}});
      if (done > 2) writer.write_manifest();
      if (done > 3) writer.publish();
      if (done > 4) writer.name_latest();
      std::raise(SIGKILL);
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    const bool is_there = done > 3;
    EXPECT_EQ(checkpoints_in(out.path()).size(), is_there ? 2U : 1U) << done;
    EXPECT_EQ(unfinished_checkpoints_in(out.path()).size(), done > 0 && !is_there ? 1U : 0U);
    EXPECT_EQ(read_latest(out.path()), done > 4 ? "checkpoints/iter_20" : "checkpoints/iter_10");
    expect_state(out / "checkpoints/iter_10", 1);
    if (is_there) expect_state(out / "checkpoints/iter_20", 2);
    EXPECT_EQ(newest_intact(out.path()).filename(), is_there ? "iter_20" : "iter_10")
        << "it is not taken, although it is complete";
    // The next run takes the same name, and nothing of the killed one remains.
    const fs::path next = write_alone(out.path(), 20, 3);
    EXPECT_EQ(next.filename(), is_there ? "iter_20-2" : "iter_20");
    expect_state(next, 3);
    EXPECT_TRUE(unfinished_checkpoints_in(out.path()).empty());
  }
}

// Whatever comes first in the folder.
TEST(KilledRemoval, LeavesFilesForTheNextRunToRemove) {
  int killed = 0;
  for (bool is_killed = true; is_killed; killed += is_killed) {
    const TemporaryFolder out;
    const fs::path checkpoint = write_alone(out.path(), 10, 1);
    const int status = status_of_child([&] {
      removals_until_killed = killed;
      remove_checkpoint(checkpoint);
      _exit(0);
    });
    is_killed = WIFSIGNALED(status);
    EXPECT_EQ(unfinished_checkpoints_in(out.path()).size(), is_killed ? 1U : 0U) << killed;
    remove_unfinished_checkpoints(out.path());
    EXPECT_TRUE(names_in(out / checkpoints_name).empty()) << killed;
  }
  EXPECT_EQ(killed, 3) << "state.npz, manifest.json and the folder";
}

// A run goes back from 30 to 10, with or without another checkpoint that it left being removed
// meanwhile, and is killed in its first save.
TEST(KilledWriter, PutsAbandonedCheckpointsLastAfterGoingBack) {
  for (const bool takes_a_name_again : {false, true})
    for (const bool is_published : {false, true}) {
      const TemporaryFolder out;
      for (const int iteration : {10, 20, 30})
        write_alone(out.path(), iteration, static_cast<float>(iteration));
      record_start(out.path(), out / "checkpoints/iter_10");
      if (takes_a_name_again) remove_checkpoint(out / "checkpoints/iter_20");
      const std::int64_t next = takes_a_name_again ? 20 : 15;
      const int status = status_of_child([&] {
        CheckpointWriter writer({.out = out.path(), .iteration = next, .epoch = 1, .parts = 1});
        writer.make_folder();
        writer.write_files({"", state_from(1), {}});
        writer.write_manifest();
        if (is_published) writer.publish();
      });
      EXPECT_TRUE(WIFSIGNALED(status));
      EXPECT_EQ(read_latest(out.path()), "checkpoints/iter_10");
      EXPECT_EQ(iteration_of(newest_intact(out.path())), is_published ? next : 10);
    }
}

// The run knows nothing of what is in its folder.
TEST(KilledWriter, PutsOlderRunsCheckpointsLastInANewRun) {
  const TemporaryFolder out;
  write_alone(out.path(), 30, 1);
  record_start(out.path(), "");
  status_of_child([&] {
    CheckpointWriter writer({.out = out.path(), .iteration = 20, .epoch = 1, .parts = 1});
    writer.make_folder();
    writer.write_files({"", state_from(2), {}});
    writer.write_manifest();
    writer.publish();
  });
  EXPECT_EQ(newest_intact(out.path()).filename(), "iter_20");
}

// At any moment, between steps or in one.
TEST(KilledWriter, LeavesOnlyWholeCheckpoints) {
  const TemporaryFolder out;
  write_alone(out.path(), 0, 0);
  std::mt19937 random{7};
  std::int64_t next = 1;
  int kills = 0;
  for (; next < 15 && kills < 200; ++kills) {
    const pid_t child = fork();
    if (child == 0)
      for (std::int64_t iteration = next;; ++iteration) {
        const fs::path saved = write_alone(out.path(), iteration, static_cast<float>(iteration));
        remove_old_checkpoints(out.path(), saved, 3);
      }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 100'000));
    kill(child, SIGKILL);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    const std::vector<CheckpointName> found = checkpoints_in(out.path());
    ASSERT_FALSE(found.empty());
    for (const CheckpointName& name : found)
      expect_state(checkpoint_folder(out.path(), name), static_cast<float>(name.iteration));
    EXPECT_TRUE(fs::exists(out.path() / read_latest(out.path()).value()));
    EXPECT_GE(found.front().iteration, next - 1);
    next = found.front().iteration + 1;
  }
  EXPECT_LT(kills, 200);
}

// Nothing but checkpoint 10 and what names it.
void expect_only_the_older_one(const fs::path& out) {
  EXPECT_EQ(checkpoints_in(out), (std::vector<CheckpointName>{{10, 1}}));
  expect_state(out / "checkpoints/iter_10", 1);
  EXPECT_EQ(read_latest(out), "checkpoints/iter_10");
  std::size_t entries = 0;
  for (const auto& entry : fs::directory_iterator(out / "checkpoints")) entries += entry.exists();
  EXPECT_EQ(entries, 1U);
}

TEST(FullDisk, KeepsOlderCheckpoints) {
  std::signal(SIGXFSZ, SIG_IGN);
  const TemporaryFolder out;
  write_alone(out.path(), 10, 1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {0, 1, 100, 1000}) {
    rlimit small = before;
    small.rlim_cur = limit;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto error = caught([&] { write_alone(out.path(), 20, 2); });
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    ASSERT_TRUE(error) << limit;
    EXPECT_EQ(error->kind(), ErrorKind::cannot_write);
    EXPECT_THAT(error->what(),
                HasSubstr((out / "checkpoints/iter_20/state.npz").string() + ": File too large"));
    expect_only_the_older_one(out.path());
  }
  write_alone(out.path(), 20, 2);
  expect_state(out / "checkpoints/iter_20", 2);
}

TEST(FullDisk, KeepsOlderCheckpointsOnARealFileSystem) {
  const TemporaryFolder folder;
  if (mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "file systems can be mounted as root only: " << std::strerror(errno);
  fs::create_directory(folder / "out");
  write_alone(folder / "out", 10, 1);
  const auto error = caught([&] {
    CheckpointWriter writer({.out = folder / "out", .iteration = 20, .epoch = 1, .parts = 1});
    writer.write({"", {{"x", ramp(Shape{100'000}, 0)}}, {}});
  });
  expect_only_the_older_one(folder / "out");
  write_alone(folder / "out", 20, 2);
  expect_state(folder / "out/checkpoints/iter_20", 2);
  EXPECT_EQ(umount(folder.path().c_str()), 0);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::cannot_write);
  EXPECT_THAT(error->what(), ::testing::ContainsRegex(
                                 "state.npz: No space left on device; it needs 400[0-9]{3} bytes, "
                                 "and [0-9]{5} are free$"));
}

TEST(WriterFailure, IsSharedByAll) {
  const TemporaryFolder out;
  write_alone(out.path(), 10, 1);
  // Writer 2's file cannot be written, before or after those of the others.
  const auto errors = with_writers(3, [&](const Writers& writers) {
    CheckpointWriter writer({.out = out.path(), .iteration = 20, .epoch = 1, .parts = 1}, writers);
    CheckpointArrays arrays;
    if (writers.index() == 0) arrays.state = state_from(2);
    if (writers.index() == 2) arrays.part = ".2";
    if (writers.index() == 2) arrays.state = {{"twice", ramp({2}, 0)}, {"twice", ramp({2}, 0)}};
    EXPECT_EQ(caught([&] { writer.write(arrays); })->scope(), ErrorScope::every_rank);
    writer.write(arrays);
  });
  EXPECT_THAT(errors, Each(HasSubstr("twice is twice among the arrays")));
  expect_only_the_older_one(out.path());
}

TEST(CheckpointFolder, IsAnErrorIfRemovedMeanwhile) {
  for (const char* const gone : {"", "checkpoints", "the unfinished one"})
    for (int moment = 0; moment < 4; ++moment) {
      const TemporaryFolder folder;
      const fs::path out = folder / "out";
      fs::create_directory(out);
      const auto error = caught([&] {
        CheckpointWriter writer({.out = out, .iteration = 20, .epoch = 1, .parts = 1});
        const auto remove_at = [&](int now) {
          if (moment != now) return;
          if (std::string_view(gone) != "the unfinished one")
            fs::remove_all(out / gone);
          else if (now > 0)
            fs::remove_all(out / checkpoints_name / names_in(out / checkpoints_name).front());
        };
        remove_at(0);
        writer.make_folder();
        remove_at(1);
        writer.write_files({"", state_from(2), {}});
        remove_at(2);
        writer.write_manifest();
        remove_at(3);
        writer.publish();
      });
      // Only the output folder itself is not made here.
      ASSERT_EQ(error.has_value(), moment > 0 || *gone == '\0') << gone << " at " << moment;
      if (!error) continue;
      EXPECT_EQ(error->kind(), ErrorKind::cannot_write) << error->what();
      EXPECT_EQ(fs::exists(out), *gone != '\0');
      EXPECT_TRUE(checkpoints_in(out).empty());
    }
}

}  // namespace
}  // namespace tasuki
