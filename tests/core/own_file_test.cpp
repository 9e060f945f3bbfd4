// Files that Tasuki names itself, in folders that others have filled.
#include "core/own_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "core/file.hpp"
#include "core/file_lock.hpp"
#include "core/system_error.hpp"
#include "tests/support/as_nobody.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/system_errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;
using testing::caught;
using testing::expect_error;

class OwnFiles : public ::testing::Test {
 protected:
  // A link to another file, a pipe, a folder and a device, each of which is `name`.
  void put(const std::string& what, const std::string& name) const {
    fs::remove_all(folder / name);
    if (what == "a link")
      fs::create_symlink(folder / "theirs", folder / name);
    else if (what == "a pipe")
      ASSERT_EQ(::mkfifo((folder / name).c_str(), 0600), 0);
    else if (what == "a folder")
      fs::create_directory(folder / name);
  }

  testing::TemporaryFolder made;
  fs::path folder = made.path();
  const std::vector<std::string> in_the_way = {"a link", "a pipe", "a folder"};
  const std::vector<OwnFile> ways_to_write = {OwnFile::append, OwnFile::update, OwnFile::renew};
};

TEST_F(OwnFiles, AreReadAndWritten) {
  EXPECT_EQ(read_file_if_there(folder / "f"), std::nullopt);
  expect_error(ErrorKind::missing, {folder / "f", "No such file"},
               [&] { read_own_file(folder / "f"); });
  for (const OwnFile how : ways_to_write) write_to(open_own_file(folder / "f", how), "abc", "f");
  EXPECT_EQ(read_own_file(folder / "f"), "abc");
  write_to(open_own_file(folder / "f", OwnFile::append), "de", "f");
  EXPECT_EQ(read_own_file(folder / "f", 5), "abcde");
  expect_error(ErrorKind::data, {folder / "f", "more than 4 bytes"},
               [&] { read_own_file(folder / "f", 4); });
  expect_error(ErrorKind::cannot_write, {folder / "f", "File exists"},
               [&] { open_own_file(folder / "f", OwnFile::make); });
}

TEST_F(OwnFiles, ExcludeLinksPipesAndFolders) {
  write_file(folder / "theirs", "keep this");
  for (const std::string& what : in_the_way) {
    put(what, "f");
    expect_error(ErrorKind::data, {folder / "f", "expected a regular file, found " + what},
                 [&] { read_file_if_there(folder / "f"); });
    for (const OwnFile how : ways_to_write)
      expect_error(ErrorKind::cannot_write,
                   {folder / "f", "expected a regular file, found " + what},
                   [&] { open_own_file(folder / "f", how); });
    expect_error(ErrorKind::cannot_write, {folder / "f", what},
                 [&] { check_own_file(folder / "f"); });
    expect_error(ErrorKind::cannot_write, {folder / "f", what},
                 [&] { FileLock::try_lock(folder / "f", "pid 1\n"); });
    EXPECT_FALSE(FileLock::is_held(folder / "f"));
    EXPECT_EQ(holder_of_lock(folder / "f"), "another process");
    EXPECT_TRUE(caught([&] { open_own_file(folder / "f", OwnFile::make); }));
  }
  EXPECT_EQ(read_file(folder / "theirs"), "keep this");
  // Also one that leads nowhere, through which a file would be made.
  fs::remove(folder / "theirs");
  put("a link", "f");
  for (const OwnFile how : {OwnFile::append, OwnFile::make})
    EXPECT_TRUE(caught([&] { open_own_file(folder / "f", how); }));
  EXPECT_FALSE(fs::exists(folder / "theirs"));
}

// A hard link is a regular file, which somebody else may have under another name.
TEST_F(OwnFiles, AreNotChangedThroughHardLinks) {
  write_file(folder / "theirs", "keep this");
  fs::create_hard_link(folder / "theirs", folder / "f");
  for (const OwnFile how : ways_to_write)
    expect_error(ErrorKind::cannot_write, {folder / "f", "the file has 2 hard links"},
                 [&] { open_own_file(folder / "f", how); });
  expect_error(ErrorKind::cannot_write, {folder / "f", "2 hard links"},
               [&] { FileLock::try_lock(folder / "f", "pid 1\n"); });
  EXPECT_EQ(read_own_file(folder / "f"), "keep this");
  write_file(folder / "f", "new");  // another file of that name
  EXPECT_EQ(read_own_file(folder / "theirs"), "keep this");
}

// The folder's own path may lead through links.
TEST_F(OwnFiles, CanBeInALinkedFolder) {
  fs::create_directory(folder / "real");
  fs::create_directory_symlink(folder / "real", folder / "linked");
  write_to(open_own_file(folder / "linked/f", OwnFile::renew), "x", "f");
  EXPECT_EQ(read_own_file(folder / "real/f"), "x");
}

TEST_F(OwnFiles, AreReplacedWithoutFollowingLinks) {
  write_file(folder / "theirs", "keep this");
  put("a link", "f");
  write_file(folder / "f", "new");
  EXPECT_EQ(read_own_file(folder / "f"), "new");
  EXPECT_EQ(read_file(folder / "theirs"), "keep this");
}

TEST_F(OwnFiles, AreNotMissingWhenUnreadable) {
  const testing::AsNobody nobody(folder);
  write_file(folder / "f", "secret");
  fs::permissions(folder / "f", fs::perms::none);
  const SystemError error = testing::system_error_of([&] { read_file_if_there(folder / "f"); });
  EXPECT_EQ(error.kind(), ErrorKind::missing);
  EXPECT_EQ(error.what(), "cannot read " + (folder / "f").string() + ": Permission denied");
  EXPECT_EQ(error.cause(), std::errc::permission_denied);
  EXPECT_FALSE(is_absence(error));
}

TEST_F(OwnFiles, CreateFoldersWithoutFollowingLinks) {
  make_own_folder(folder / "d");
  make_own_folder(folder / "d");
  EXPECT_TRUE(fs::is_directory(folder / "d"));
  fs::create_directory_symlink(folder / "d", folder / "linked");
  expect_error(ErrorKind::cannot_write, {folder / "linked", "found a link"},
               [&] { make_own_folder(folder / "linked"); });
  write_file(folder / "f", "x");
  expect_error(ErrorKind::cannot_write, {folder / "f", "found a file"},
               [&] { make_own_folder(folder / "f"); });
  expect_error(ErrorKind::cannot_write, {folder / "none/d", "No such file"},
               [&] { make_own_folder(folder / "none/d"); });
}

TEST_F(OwnFiles, ReadOnlyShortFirstLines) {
  EXPECT_EQ(first_line_in(folder / "f"), std::nullopt);
  write_file(folder / "f", "");
  EXPECT_EQ(first_line_in(folder / "f"), std::nullopt);
  write_file(folder / "f", "one\ntwo\n");
  EXPECT_EQ(first_line_in(folder / "f"), "one");
  write_file(folder / "f", std::string(1 << 20, 'x'));
  expect_error(ErrorKind::data, {folder / "f", "more than 65536 bytes"},
               [&] { first_line_in(folder / "f"); });
}

TEST_F(OwnFiles, LocksKeepTextOfOthers) {
  write_file(folder / "lock", "of another program\n");
  {
    const auto lock = FileLock::try_lock(folder / "lock", "pid 1 on here\n");
    ASSERT_TRUE(lock);
    EXPECT_TRUE(FileLock::is_held(folder / "lock"));
    EXPECT_TRUE(lock->is_at(folder / "lock"));
    fs::rename(folder / "lock", folder / "moved");
    EXPECT_FALSE(lock->is_at(folder / "lock"));
    write_file(folder / "lock", "pid 2\n");
    EXPECT_FALSE(lock->is_at(folder / "lock"));
  }
  EXPECT_EQ(read_file(folder / "moved"), "of another program\n");
  EXPECT_TRUE(FileLock::try_lock(folder / "lock", "pid 1 on here\n"));
  EXPECT_EQ(holder_of_lock(folder / "lock"), "pid 1 on here");
}

}  // namespace
}  // namespace tasuki
