// Room on full disks: which checkpoints go, and that those which a run needs stay.
#include "saving/retention.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "core/file.hpp"
#include "core/system_error.hpp"
#include "saving/checkpoint_writer.hpp"
#include "tests/support/temporary_folder.hpp"
#include "written_checkpoints.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using namespace testing;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> names_of_checkpoints(const fs::path& out) {
  std::vector<std::string> names;
  for (const CheckpointName& name : checkpoints_in(out)) names.push_back(name.text());
  return names;
}

void flip_last_byte(const fs::path& file) {
  std::string contents = read_file(file);
  contents.back() = static_cast<char>(contents.back() ^ 1);
  write_file(file, contents);
}

class Retention : public ::testing::Test {
 protected:
  Retention() {
    for (const int iteration : {10, 20, 30, 40, 50}) write_alone(out.path(), iteration, 1);
  }
  fs::path at(std::int64_t iteration) const {
    return checkpoint_folder(out.path(), {iteration, 1});
  }
  std::vector<std::string> make(std::int64_t iteration) const {
    return make_room(out.path(), iteration, Writers(), {});
  }
  std::vector<std::string> left() const { return names_of_checkpoints(out.path()); }

  TemporaryFolder out;
};

TEST_F(Retention, RemovesAllButTheNewestAndTheBest) {
  write_best(out.path(), at(20));
  EXPECT_THAT(make(55), ElementsAre("iter_40", "iter_30", "iter_10"));
  EXPECT_THAT(left(), ElementsAre("iter_50", "iter_20"));
  EXPECT_THAT(make(55), IsEmpty());
}

TEST_F(Retention, KeepsTheNewestIntactCheckpoint) {
  flip_last_byte(at(50) / "state.npz");
  fs::remove(at(40) / manifest_name);  // a folder without a manifest may be a user's
  EXPECT_THAT(make(55), ElementsAre("iter_50", "iter_20", "iter_10"));
  EXPECT_THAT(left(), ElementsAre("iter_40", "iter_30"));
  flip_last_byte(at(30) / "state.npz");
  EXPECT_THAT(make(55), IsEmpty()) << "none is intact";
  EXPECT_THAT(left(), ElementsAre("iter_40", "iter_30"));
}

// By what the system answered, wherever the folder is.
TEST(FullDisk, IsNotDetectedFromAPath) {
  const auto error_of_system = [](int number) {
    return SystemError(ErrorKind::cannot_write, {number, std::generic_category()},
                       "cannot write w/No space left on device/x");
  };
  for (const int number : {ENOSPC, EDQUOT}) EXPECT_TRUE(is_of_full_disk(error_of_system(number)));
  EXPECT_FALSE(is_of_full_disk(error_of_system(EACCES)));
  EXPECT_FALSE(is_of_full_disk(error_of_system(0)));
}

TEST_F(Retention, RemovesNothingForAFolderNamedLikeTheError) {
  const fs::path disk = out / "No space left on device";
  fs::create_directory(disk);
  const auto task_of = [&](std::int64_t iteration) {
    CheckpointTask task;
    task.info = {.out = disk, .iteration = iteration, .epoch = 1, .parts = 1};
    task.arrays.state = {{"x", ramp(Shape{4}, 0)}};
    task.n_retains = 9;
    return task;
  };
  for (const int iteration : {10, 20, 30}) task_of(iteration).run();
  // A limit of the process, which no room on the disk would help.
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 100;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  CheckpointTask task = task_of(40);
  const std::string error = error_of([&] { task.run(); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_THAT(error, ::testing::HasSubstr(
                         "No space left on device/checkpoints/iter_40/state.npz: File too large"));
  EXPECT_THAT(task.removed, IsEmpty());
  EXPECT_THAT(names_of_checkpoints(disk), ElementsAre("iter_30", "iter_20", "iter_10"));
}

TEST_F(Retention, KeepsCheckpointsTheRunHasLeft) {
  record_start(out.path(), at(30));  // abandons 40 and 50
  write_alone(out.path(), 45, 1);
  EXPECT_THAT(make(45), ElementsAre("iter_30", "iter_20", "iter_10"));
  EXPECT_THAT(left(), ElementsAre("iter_50", "iter_45", "iter_40"));
}

// Each writer has a part of the model on a disk of its own.
class RetentionOnSeveralDisks : public ::testing::Test {
 protected:
  static constexpr int writers = 2;

  CheckpointTask task_of(const Writers& of, std::int64_t iteration, std::int64_t elements) const {
    CheckpointTask task;
    task.info = {.out = disk(of.index()), .iteration = iteration, .epoch = 1, .parts = writers};
    task.writers = of;
    task.arrays.part = fmt::format(".{}", of.index());
    task.arrays.state = {{"x", ramp(Shape{elements}, static_cast<float>(iteration))}};
    task.n_retains = 3;
    return task;
  }
  fs::path disk(int index) const { return folders[index].path() / "out"; }

  void SetUp() override {
    for (int index = 0; index < writers; ++index) fs::create_directory(disk(index));
  }

  TemporaryFolder folders[writers];
};

TEST_F(RetentionOnSeveralDisks, RemovesAlikeOnAllDisks) {
  const auto errors = with_writers(writers, [&](const Writers& of) {
    for (const int iteration : {10, 20, 30}) task_of(of, iteration, 100).run();
  });
  EXPECT_THAT(errors, Each("(nothing thrown)"));
  // What is intact here is not there; and what is the best there is known to be here.
  flip_last_byte(disk(1) / "checkpoints/iter_30/state.1.npz");
  write_best(disk(1), disk(1) / "checkpoints/iter_10");
  with_writers(writers, [&](const Writers& of) {
    EXPECT_THAT(make_room(disk(of.index()), 35, of, {0, 1}), ElementsAre("iter_30"));
  });
  for (int index = 0; index < writers; ++index)
    EXPECT_THAT(names_of_checkpoints(disk(index)), ElementsAre("iter_20", "iter_10"));
}

TEST_F(RetentionOnSeveralDisks, LetsARunSaveOnASmallDisk) {
  constexpr std::int64_t elements = 25'000;  // 100 kB
  if (mount("tmpfs", folders[1].path().c_str(), "tmpfs", 0, "size=360k") != 0)
    GTEST_SKIP() << "file systems can be mounted as root only: " << std::strerror(errno);
  fs::create_directory(disk(1));
  std::vector<std::string> removed;
  const auto errors = with_writers(writers, [&](const Writers& of) {
    for (int iteration = 10; iteration <= 60; iteration += 10) {
      CheckpointTask task = task_of(of, iteration, elements);
      task.run();
      EXPECT_EQ(task.path, checkpoint_folder(disk(of.index()), {iteration, 1}));
      if (of.index() == 0) removed.insert(removed.end(), task.removed.begin(), task.removed.end());
    }
  });
  EXPECT_THAT(errors, Each("(nothing thrown)"));
  EXPECT_THAT(removed, ElementsAre("iter_20", "iter_10", "iter_40", "iter_30"));
  for (int index = 0; index < writers; ++index) {
    EXPECT_THAT(names_of_checkpoints(disk(index)), ElementsAre("iter_60", "iter_50"));
    EXPECT_THAT(unfinished_checkpoints_in(disk(index)), IsEmpty());
  }
  // Nothing can make room for what does not fit at all.
  const auto refused =
      with_writers(writers, [&](const Writers& of) { task_of(of, 70, 4 * elements).run(); });
  EXPECT_THAT(refused, Each(::testing::HasSubstr("state.1.npz: No space left on device; it needs "
                                                 "400")));
  for (int index = 0; index < writers; ++index)
    EXPECT_THAT(names_of_checkpoints(disk(index)), ElementsAre("iter_60"));
  EXPECT_EQ(umount(folders[1].path().c_str()), 0);
}

}  // namespace
}  // namespace tasuki
