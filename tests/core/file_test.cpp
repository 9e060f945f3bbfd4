#include "core/file.hpp"
#include "core/named_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/error.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "tests/support/as_nobody.hpp"
#include "tests/support/system_errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace {
std::mutex of_synced;                       // threads write files at the same time
std::vector<std::filesystem::path> synced;  // by fsync, in this order
}  // namespace

// In the C library's place.
extern "C" int fsync(int descriptor) {
  std::error_code ignored;
  const std::lock_guard lock(of_synced);
  synced.push_back(
      std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor), ignored));
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using testing::system_error_of;

// A separate folder for each test.
class File : public ::testing::Test {
 protected:
  std::size_t entries() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }

  tasuki::testing::TemporaryFolder made;
  fs::path folder = made.path();
};

template <class Action>
ErrorKind kind_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorKind::internal;
}

TEST_F(File, RoundTripsContents) {
  const std::string contents("a\0b\r\n\xff", 6);
  write_file(folder / "f", contents);
  EXPECT_EQ(read_file(folder / "f"), contents);
  write_file(folder / "f", "");
  EXPECT_EQ(read_file(folder / "f"), "");
  EXPECT_EQ(entries(), 1u) << "a temporary file was left";
}

// Of which each has a temporary file of its own.
TEST_F(File, CanBeWrittenByManyThreads) {
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      const std::string contents(1000, static_cast<char>('a' + thread));
      for (int i = 0; i < 50; ++i) {
        try {
          write_file(folder / "f", contents);
          const std::string found = read_file(folder / "f");
          if (found != std::string(1000, found.at(0))) ++failures;
        } catch (const Error&) {
          ++failures;
        }
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(entries(), 1u) << "a temporary file was left";
}

TEST_F(File, RejectsMissingFilesAndFolders) {
  EXPECT_EQ(kind_of([&] { read_file(folder / "none"); }), ErrorKind::missing);
  EXPECT_THROW(read_file(folder), Error);
}

// The old version stays whole when writing the new one fails half way.
TEST_F(File, FailureKeepsTheOldVersion) {
  write_file(folder / "f", "old");
  EXPECT_THROW(replace_file(folder / "f",
                            [](const fs::path& temporary) {
                              std::ofstream(temporary) << "half of the n";
                              throw std::runtime_error("out of luck");
                            }),
               std::runtime_error);
  EXPECT_EQ(read_file(folder / "f"), "old");
  EXPECT_EQ(entries(), 1u) << "the temporary file was left";
}

TEST_F(File, ReplacesTheOldVersionAtomically) {
  write_file(folder / "f", "old");
  replace_file(folder / "f", [&](const fs::path& temporary) {
    EXPECT_EQ(temporary.parent_path(), folder) << "a rename works in one file system only";
    std::ofstream(temporary) << "new";
    EXPECT_EQ(read_file(folder / "f"), "old");
  });
  EXPECT_EQ(read_file(folder / "f"), "new");
}

TEST_F(File, RejectsWriterThatWritesNothing) {
  write_file(folder / "f", "old");
  EXPECT_EQ(kind_of([&] { replace_file(folder / "f", [](const fs::path&) {}); }),
            ErrorKind::cannot_write);
  EXPECT_EQ(read_file(folder / "f"), "old");
}

TEST_F(File, WritesAllFilesThatBelongTogetherOrNone) {
  write_file(folder / "a", "old");
  fs::create_directory(folder / "d");
  for (const fs::path& impossible : {folder / "d", folder / "none" / "f"}) {
    const FileContents files[] = {{folder / "a", "new"}, {folder / "b", "b"}, {impossible, "c"}};
    EXPECT_EQ(kind_of([&] { write_files(files); }), ErrorKind::cannot_write);
    EXPECT_EQ(read_file(folder / "a"), "old");
    EXPECT_EQ(entries(), 2u);
  }
  const FileContents files[] = {{folder / "a", "new"}, {folder / "b", "b"}};
  write_files(files);
  EXPECT_EQ(read_file(folder / "a"), "new");
  EXPECT_EQ(read_file(folder / "b"), "b");
}

TEST_F(File, RejectsFoldersInTheWay) {
  EXPECT_EQ(kind_of([&] { write_file(folder / "none" / "f", "x"); }), ErrorKind::cannot_write);
  fs::create_directory(folder / "d");
  EXPECT_EQ(kind_of([&] { write_file(folder / "d", "x"); }), ErrorKind::cannot_write);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(File, CreatesOrRejectsOutputFolders) {
  make_output_folder(folder / "a" / "b");
  EXPECT_TRUE(fs::is_directory(folder / "a" / "b"));
  EXPECT_NO_THROW(make_output_folder(folder / "a" / "b"));
  write_file(folder / "f", "x");
  EXPECT_EQ(kind_of([&] { make_output_folder(folder / "f"); }), ErrorKind::cannot_write);
  EXPECT_EQ(kind_of([&] { make_output_folder(folder / "f" / "g"); }), ErrorKind::cannot_write);
  EXPECT_NO_THROW(check_output_folder(folder / "a" / "b"));
  EXPECT_NO_THROW(check_output_folder(folder / "c" / "d" / ""));
  EXPECT_FALSE(fs::exists(folder / "c"));
  EXPECT_EQ(kind_of([&] { check_output_folder(folder / "f"); }), ErrorKind::cannot_write);
  EXPECT_EQ(kind_of([&] { check_output_folder(folder / "f" / "g"); }), ErrorKind::cannot_write);
}

// With the names in their parents, so that they survive a loss of power.
TEST_F(File, SyncsNewFoldersToDisk) {
  synced.clear();
  make_output_folder(folder / "a" / "b" / "c");
  EXPECT_EQ(synced, (std::vector{folder, folder / "a", folder / "a" / "b"}));
  synced.clear();
  make_output_folder(folder / "a" / "b" / "c");
  EXPECT_TRUE(synced.empty());
  make_own_folder(folder / "d");
  EXPECT_EQ(synced, std::vector{folder});
}

// The error says so, of the path that was given.
TEST_F(File, RejectsFoldersWithoutPermission) {
  const auto expect_refused = [](ErrorKind kind, const fs::path& path, const auto& action) {
    const SystemError error = system_error_of(action);
    EXPECT_EQ(error.kind(), kind) << path;
    EXPECT_TRUE(std::string(error.what()).ends_with(path.string() + ": Permission denied"))
        << error.what();
    EXPECT_EQ(error.cause(), std::errc::permission_denied);
    EXPECT_FALSE(is_absence(error));
  };
  const testing::AsNobody nobody(folder);
  fs::create_directories(folder / "a" / "b");
  write_file(folder / "a" / "f", "x");
  fs::permissions(folder / "a", fs::perms::none);
  for (const fs::path& path : {folder / "a", folder / "a" / "b", folder / "a" / "c" / "d"}) {
    expect_refused(ErrorKind::cannot_write, path, [&] { make_output_folder(path); });
    expect_refused(ErrorKind::cannot_write, path, [&] { check_output_folder(path); });
    expect_refused(ErrorKind::missing, path, [&] { names_in(path); });
  }
  expect_refused(ErrorKind::missing, folder / "a" / "f", [&] { read_file(folder / "a" / "f"); });
  expect_refused(ErrorKind::cannot_write, folder / "a" / "g",
                 [&] { write_file(folder / "a" / "g", "x"); });
  // What may be written but not listed can be written.
  fs::permissions(folder / "a", fs::perms::owner_write | fs::perms::owner_exec);
  EXPECT_NO_THROW(write_file(folder / "a" / "g", "x"));
  fs::permissions(folder / "a", fs::perms::owner_all);
}

TEST_F(File, ReadsUserNamedPipesUpToALimit) {
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  std::thread writer([&] { write_named_file(folder / "pipe", "through a pipe"); });
  EXPECT_EQ(read_file(folder / "pipe"), "through a pipe");
  writer.join();
  EXPECT_EQ(kind_of([] { read_up_to("/dev/zero", 1000); }), ErrorKind::data);
  EXPECT_EQ(kind_of([] { read_text_file("/dev/zero"); }), ErrorKind::data);
  EXPECT_EQ(kind_of([&] { read_file(folder); }), ErrorKind::missing);
  write_file(folder / "f", std::string(1000, 'x'));
  EXPECT_EQ(read_up_to(folder / "f", 1000).size(), 1000U);
  EXPECT_EQ(kind_of([&] { read_up_to(folder / "f", 999); }), ErrorKind::data);
}

// What is there stays what it is: a link, a device.
TEST_F(File, WritesUserNamedFilesThroughLinks) {
  write_file(folder / "f", "old");
  fs::create_symlink("f", folder / "link");
  fs::create_symlink("g", folder / "to nothing");
  write_named_file(folder / "link", "new");
  write_named_file(folder / "to nothing", "made");
  write_named_file(folder / "h", "plain");
  EXPECT_EQ(read_file(folder / "f"), "new");
  EXPECT_EQ(read_file(folder / "g"), "made");
  EXPECT_EQ(read_file(folder / "h"), "plain");
  EXPECT_TRUE(fs::is_symlink(folder / "link"));
  fs::create_symlink("/dev/null", folder / "null");
  write_named_file(folder / "null", "x");
  EXPECT_TRUE(fs::is_character_file(folder / "null"));
  EXPECT_EQ(kind_of([&] { write_named_file("/dev/full", "x"); }), ErrorKind::cannot_write);
  EXPECT_EQ(kind_of([&] { write_named_file(folder, "x"); }), ErrorKind::cannot_write);
}

// Not an error's text: a path may contain anything.
TEST_F(File, DetectsFullDisksByErrorCode) {
  const SystemError error = system_error_of([] { write_named_file("/dev/full", "x"); });
  EXPECT_EQ(error.cause(), std::errc::no_space_on_device);
  EXPECT_EQ(error.what(),
            std::string("cannot write 1 bytes to /dev/full: No space left on device"));
}

// While a program runs, an error of writing is one of writing; what ends it may pass.
TEST(FailedWrites, AreRetryableForFailingDisks) {
  const auto at_end = [](int number, ErrorKind kind = ErrorKind::cannot_write) {
    return kind_at_end(SystemError(kind, {number, std::generic_category()}, "x"));
  };
  for (const int number : {EIO, ESTALE, ETIMEDOUT, EREMOTEIO})
    EXPECT_EQ(at_end(number), ErrorKind::io) << number;
  for (const int number : {EACCES, EPERM, EROFS, ENOSPC, EDQUOT, EEXIST, ENOTDIR})
    EXPECT_EQ(at_end(number), ErrorKind::cannot_write) << number;
  EXPECT_EQ(at_end(EIO, ErrorKind::missing), ErrorKind::missing);
  EXPECT_EQ(kind_at_end(Error(ErrorKind::cannot_write, "in use")), ErrorKind::cannot_write);
}

}  // namespace
}  // namespace tasuki
