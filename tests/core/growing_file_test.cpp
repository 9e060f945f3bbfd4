// A file that grows, on disks that are full and in folders that change.
#include "core/growing_file.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include "core/error.hpp"
#include "core/file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

// Files may have no more bytes than this, as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit full{bytes, before_.rlim_max};
    handler_ = ::signal(SIGXFSZ, SIG_IGN);
    ::setrlimit(RLIMIT_FSIZE, &full);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

TEST(GrowingFiles, KeepWhatAFullDiskDoesNotTake) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "file";
  GrowingFile file(path, OwnFile::make);
  file.append("first\n");
  file.flush();
  file.append(std::string(100, 'x') + '\n');
  {
    const FullDisk full(50);
    EXPECT_THROW(file.flush(), Error);
  }
  EXPECT_EQ(read_file(path), "first\n");
  EXPECT_EQ(file.size(), 107);
  file.append("last\n");
  file.flush();
  EXPECT_EQ(read_file(path), "first\n" + std::string(100, 'x') + "\nlast\n");
}

TEST(GrowingFiles, AreCut) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "file";
  write_file(path, "0123456789");
  GrowingFile file(path, OwnFile::update);
  file.append("abc");
  file.cut(20);
  EXPECT_EQ(file.size(), 13);
  file.cut(12);
  EXPECT_EQ(file.waiting(), "ab");
  file.cut(4);
  file.append("x");
  file.flush();
  EXPECT_EQ(read_file(path), "0123x");
  file.append("y");
  file.replace([&](const GrowingFile::Put& put) {
    put("ne");
    put("w\n");
  });
  file.append("end\n");
  file.flush();
  EXPECT_EQ(read_file(path), "new\nend\n");
}

TEST(GrowingFiles, NoticeThatTheyAreGone) {
  const testing::TemporaryFolder folder;
  const auto path = folder / "file";
  const GrowingFile file(path, OwnFile::make);
  EXPECT_TRUE(file.is_there());
  write_file(path, "another one");
  EXPECT_FALSE(file.is_there());
  std::filesystem::remove(path);
  EXPECT_FALSE(file.is_there());
}

}  // namespace
}  // namespace tasuki
