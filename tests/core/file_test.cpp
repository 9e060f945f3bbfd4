#include "tasuki/core/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tasuki/core/error.hpp"
#include "temporary_folder.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

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

TEST_F(File, ReadsWhatWasWritten) {
  const std::string contents("a\0b\r\n\xff", 6);
  write_file(folder / "f", contents);
  EXPECT_EQ(read_file(folder / "f"), contents);
  write_file(folder / "f", "");
  EXPECT_EQ(read_file(folder / "f"), "");
  EXPECT_EQ(entries(), 1u) << "a temporary file was left";
}

// Of which each has a temporary file of its own.
TEST_F(File, IsWrittenBySeveralThreads) {
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

TEST_F(File, MissingFilesAndFoldersAreErrors) {
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

TEST_F(File, TheOldVersionIsThereUntilTheNewOneIsComplete) {
  write_file(folder / "f", "old");
  replace_file(folder / "f", [&](const fs::path& temporary) {
    EXPECT_EQ(temporary.parent_path(), folder) << "a rename works in one file system only";
    std::ofstream(temporary) << "new";
    EXPECT_EQ(read_file(folder / "f"), "old");
  });
  EXPECT_EQ(read_file(folder / "f"), "new");
}

TEST_F(File, AWriterThatWritesNothingIsAnError) {
  write_file(folder / "f", "old");
  EXPECT_EQ(kind_of([&] { replace_file(folder / "f", [](const fs::path&) {}); }),
            ErrorKind::cannot_write);
  EXPECT_EQ(read_file(folder / "f"), "old");
}

TEST_F(File, FoldersInTheWayAreErrors) {
  EXPECT_EQ(kind_of([&] { write_file(folder / "none" / "f", "x"); }), ErrorKind::cannot_write);
  fs::create_directory(folder / "d");
  EXPECT_EQ(kind_of([&] { write_file(folder / "d", "x"); }), ErrorKind::cannot_write);
  EXPECT_EQ(entries(), 1u);
}

TEST_F(File, OutputFoldersAreMadeOrRefused) {
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

TEST_F(File, ReadOnlyFoldersAreRefused) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  fs::permissions(folder, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(kind_of([&] { make_output_folder(folder); }), ErrorKind::cannot_write);
  fs::permissions(folder, fs::perms::owner_all);
}

}  // namespace
}  // namespace tasuki
