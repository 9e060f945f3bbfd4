// The folder of a run's results: which one a run takes, and what it does when the folder goes.
#include "training/output_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "core/file.hpp"
#include "scripted_updater.hpp"
#include "tests/support/as_nobody.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/json.hpp"
#include "tests/support/leftover.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/log_report.hpp"

namespace {
bool has_locks = true;  // of the file system
}

// In the C library's place.
extern "C" int flock(int descriptor, int operation) {
  if (has_locks) return static_cast<int>(syscall(SYS_flock, descriptor, operation));
  errno = ENOLCK;
  return -1;
}

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using ::testing::HasSubstr;
using testing::ScriptedUpdater;
using testing::TemporaryFolder;

TEST(FolderChoice, DependsOnExistingFiles) {
  const auto leave = OldResults::leave, join = OldResults::join;
  EXPECT_EQ(choose_folder(leave, false, false), FolderChoice::take);
  EXPECT_EQ(choose_folder(leave, false, true), FolderChoice::try_next);
  EXPECT_EQ(choose_folder(leave, true, false), FolderChoice::try_next);
  EXPECT_EQ(choose_folder(leave, true, true), FolderChoice::try_next);
  EXPECT_EQ(choose_folder(join, false, false), FolderChoice::take);
  EXPECT_EQ(choose_folder(join, false, true), FolderChoice::take);
  EXPECT_EQ(choose_folder(join, true, false), FolderChoice::refuse);
  EXPECT_EQ(choose_folder(join, true, true), FolderChoice::refuse);
}

TEST(NumberedFolder, IsBesideTheFirst) {
  EXPECT_EQ(numbered_folder("a/result/", 1), "a/result/");
  EXPECT_EQ(numbered_folder("a/result", 2), "a/result-2");
  EXPECT_EQ(numbered_folder("a/result/", 12), "a/result-12");
  EXPECT_EQ(numbered_folder("a/./result//", 3), "a/result-3");
  const fs::path here = fs::current_path();
  EXPECT_EQ(numbered_folder(".", 2), here.parent_path() / (here.filename().string() + "-2"));
}

class OutputFolderTest : public ::testing::Test {
 protected:
  fs::path taken(const fs::path& wanted, OldResults old = OldResults::leave) {
    OutputFolder output(wanted);
    output.take(old);
    return output.path();
  }
  TemporaryFolder folder;
  fs::path out = folder / "out";
};

TEST_F(OutputFolderTest, SkipsOnlyFoldersWithResults) {
  EXPECT_EQ(taken(out), out) << "there was no folder";
  write_file(out / "notes.txt", "not a result");
  EXPECT_EQ(taken(out), out);
  for (const char* const result : {"log", "about.json", "snapshot_iter_20", "snapshot_iter_20.1"}) {
    write_file(out / result, "of another run");
    EXPECT_EQ(OutputFolder::find(out, OldResults::leave), folder / "out-2") << result;
    EXPECT_FALSE(fs::exists(folder / "out-2"));
    EXPECT_EQ(taken(out), folder / "out-2") << result;
    EXPECT_EQ(taken(out, OldResults::join), out) << result;
    EXPECT_EQ(OutputFolder::find(out, OldResults::join), out);
    fs::remove(out / result);
    fs::remove_all(folder / "out-2");
  }
  write_file(out / "log", "of another run");
  for (const char* const snapshot : {"snapshot_iter_3", "snapshot_iter_3.0", "snapshot_best.1"})
    write_file(out / snapshot, "of another run");
  for (const char* const other : {"snapshot_iter_x", "log.1"})
    write_file(out / other, "not a result");
  write_file(out / "about.json", "of another run");
  remove_results(out);
  EXPECT_EQ(taken(out), out);
  EXPECT_FALSE(fs::exists(out / "snapshot_best.1"));
  EXPECT_TRUE(fs::exists(out / "notes.txt"));
  EXPECT_TRUE(fs::exists(out / "snapshot_iter_x"));
  EXPECT_TRUE(fs::exists(out / "log.1"));
}

TEST_F(OutputFolderTest, IsHeldByOneJobAtATime) {
  OutputFolder first(out);
  first.take(OldResults::join);
  OutputFolder second(out);
  const std::string error = error_of([&] { second.take(OldResults::join); });
  EXPECT_THAT(error, HasSubstr(out.string() + " is in use by another job (pid " +
                               std::to_string(getpid()) + " on "));
  second.take(OldResults::leave);
  EXPECT_EQ(second.path(), folder / "out-2");
  first.release();
  EXPECT_EQ(taken(out, OldResults::join), out);
}

TEST_F(OutputFolderTest, IsReleasedByAKilledJob) {
  const pid_t child = fork();
  if (child == 0) {
    OutputFolder output(out);
    output.take(OldResults::join);
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(taken(out, OldResults::join), out);
}

TEST_F(OutputFolderTest, RemovesTemporaryFilesOfKilledJobs) {
  fs::create_directories(out);
  const std::vector<std::string> leftovers = {testing::leftover("snapshot_iter_5"),
                                              testing::leftover("log")};
  const std::vector<std::string> others = {"notes.tmp",  "thesis.2024.tmp",
                                           "log.9.tmp",  "a.123.tmp.txt",
                                           "snapshot.5", temporary_name("log").string()};
  for (const auto& names : {leftovers, others})
    for (const std::string& name : names) std::ofstream(out / name) << "x";
  {
    OutputFolder first(out);
    first.take(OldResults::join);
    std::ofstream(out / leftovers[1]) << "perhaps being written";
    OutputFolder second(out);
    EXPECT_ANY_THROW(second.take(OldResults::join));
    EXPECT_TRUE(fs::exists(out / leftovers[1])) << "another job's";
  }
  taken(out);
  for (const std::string& name : leftovers) EXPECT_FALSE(fs::exists(out / name)) << name;
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(out / name)) << name;
}

TEST_F(OutputFolderTest, RemovesTemporaryFilesBesideResults) {
  fs::create_directories(out);
  write_file(out / "log", "of a run that was killed");
  const std::string killed = testing::leftover("snapshot_iter_5");
  std::ofstream(out / killed) << "half of it";
  std::ofstream(out / "thesis.2024.tmp") << "a user's";
  EXPECT_EQ(taken(out), folder / "out-2");
  EXPECT_FALSE(fs::exists(out / killed));
  EXPECT_TRUE(fs::exists(out / "thesis.2024.tmp"));
  EXPECT_EQ(read_file(out / "log"), "of a run that was killed");
  // A folder in use is left alone.
  OutputFolder first(out);
  first.take(OldResults::join);
  std::ofstream(out / killed) << "perhaps being written";
  EXPECT_EQ(taken(out), folder / "out-2");
  EXPECT_TRUE(fs::exists(out / killed));
}

TEST_F(OutputFolderTest, ReportsUnlockableFolder) {
  fs::create_directories(out);
  const std::string killed = testing::leftover("log");
  std::ofstream(out / killed) << "perhaps being written";
  has_locks = false;
  ::testing::internal::CaptureStderr();
  OutputFolder first(out), second(out);
  first.take(OldResults::join);
  second.take(OldResults::leave);
  has_locks = true;
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("warning: " + out.string() + " cannot be locked (No locks available)"));
  EXPECT_EQ(second.path(), out);
  EXPECT_TRUE(fs::exists(out / killed));
}

TEST_F(OutputFolderTest, IsRecreatedWhenRemoved) {
  OutputFolder output(out);
  output.take(OldResults::join);
  output.restore();
  EXPECT_EQ(output.path(), out);
  fs::remove_all(out);
  output.restore();
  EXPECT_EQ(output.path(), out);
  OutputFolder second(out);
  EXPECT_ANY_THROW(second.take(OldResults::join)) << "not locked again";
  // Another job was quicker.
  fs::rename(out, folder / "old");
  second.take(OldResults::join);
  output.restore();
  EXPECT_EQ(output.path(), folder / "out-2");
}

// With the lock gone, another job could take the folder.
TEST_F(OutputFolderTest, RetakesALostLock) {
  OutputFolder output(out);
  output.take(OldResults::join);
  output.write("about.json", "of this run");
  fs::remove(out / ".lock");
  EXPECT_FALSE(OutputFolder::is_in_use(out));
  ::testing::internal::CaptureStderr();
  output.restore();
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the lock of output folder " + out.string() + " was removed"));
  EXPECT_EQ(output.path(), out);
  OutputFolder second(out);
  EXPECT_ANY_THROW(second.take(OldResults::join)) << "not locked again";
  // Another job was quicker.
  fs::remove(out / ".lock");
  second.take(OldResults::join);
  output.restore();
  EXPECT_EQ(output.path(), folder / "out-2");
  EXPECT_EQ(read_file(folder / "out-2/about.json"), "of this run");
}

// An output folder may come from somebody else.
TEST_F(OutputFolderTest, IsNotWrittenThroughLinks) {
  fs::create_directories(out);
  fs::create_directory(folder / "other");
  write_file(folder / "theirs", "keep this");
  const auto expect_refused = [&](const std::string& words) {
    const auto error = testing::caught([&] { taken(out, OldResults::join); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::cannot_write);
    EXPECT_THAT(error->what(), HasSubstr(words));
  };
  fs::create_symlink(folder / "theirs", out / ".lock");
  expect_refused((out / ".lock").string() + ": expected a regular file, found a link");
  EXPECT_EQ(read_file(folder / "theirs"), "keep this");
  fs::remove(out / ".lock");
  fs::create_directory_symlink(folder / "other", out / "checkpoints");
  expect_refused((out / "checkpoints").string() + " is a link");
  // The folder itself may be one: a user has named it.
  fs::remove(out / "checkpoints");
  fs::create_directory_symlink(out, folder / "linked");
  EXPECT_EQ(taken(folder / "linked", OldResults::join), folder / "linked");
}

TEST_F(OutputFolderTest, NamesUnlistableFolder) {
  const testing::AsNobody nobody(folder.path());
  fs::create_directories(out);
  fs::permissions(out, fs::perms::owner_write | fs::perms::owner_exec);
  for (const OldResults old : {OldResults::leave, OldResults::join}) {
    const auto error = testing::caught([&] { taken(out, old); });
    fs::permissions(out, fs::perms::owner_write | fs::perms::owner_exec);
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::cannot_write);
    EXPECT_EQ(error->what(), "cannot read " + out.string() + ": Permission denied");
  }
  fs::permissions(out, fs::perms::owner_all);
}

TEST_F(OutputFolderTest, RestoresOneTimeFilesWhenRecreated) {
  OutputFolder output(out);
  output.take(OldResults::leave);
  output.write("about.json", "old");
  output.write("about.json", "new");
  for (const char* const name : {"out", "out-2"}) {
    fs::remove_all(out);
    OutputFolder quicker(out);
    if (name == std::string("out-2")) quicker.take(OldResults::leave);
    output.restore();
    EXPECT_EQ(read_file(folder / name / "about.json"), "new") << name;
  }
}

// The log from its first entry on, whenever the folder goes.
TEST_F(OutputFolderTest, CanBeLostDuringTraining) {
  const std::vector<std::pair<int, std::int64_t>> cases = {{3, 3}, {3, 6}, {1, 2}};
  for (const auto& [epochs, gone_after] : cases) {
    Trainer trainer(std::make_unique<ScriptedUpdater>(2), stop_after(epochs), out);
    trainer.extend(std::make_unique<LogReport>());
    trainer.extend(make_extension("remove",
                                  [&, iteration = gone_after](Trainer& running) {
                                    if (running.updater().iteration() == iteration)
                                      fs::remove_all(out);
                                  }),
                   {.trigger = every(1, Unit::iteration)});
    trainer.run();
    EXPECT_EQ(std::ssize(testing::json_in(out / "log")), epochs) << gone_after;
    fs::remove_all(out);
  }
}

TEST_F(OutputFolderTest, IsNotSharedByTwoTrainers) {
  Trainer first(std::make_unique<ScriptedUpdater>(2), stop_after(1), out);
  Trainer second(std::make_unique<ScriptedUpdater>(2), stop_after(1), out);
  std::string error;
  first.extend(
      make_extension("second", [&](Trainer&) { error = error_of([&] { second.run(); }); }));
  first.run();
  EXPECT_THAT(error, HasSubstr("is in use by another job"));
  second.run();
  EXPECT_EQ(second.updater().iteration(), 2);
}

}  // namespace
}  // namespace tasuki
