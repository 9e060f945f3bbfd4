// Damage to an NPZ file, and to the disk while one is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "core/file.hpp"
#include "saving/npz.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

class NpzDamage : public ::testing::Test {
 protected:
  NpzDamage() {
    write_npz(folder / "good", {{"predictor/l1/W", Tensor::full(Shape{4, 5}, 0.1)},
                                {"predictor/l1/b", Tensor::zeros(Shape{4})},
                                {"_log", std::string("[]")}});
    good = read_file(folder / "good");
  }
  // Opens a file with these contents, and reads all of it when that succeeds.
  std::string refusal(const std::string& contents, bool require_hash) {
    std::ofstream(folder / "bad", std::ios::binary | std::ios::trunc) << contents;
    return refusal(require_hash);
  }
  std::string refusal(bool require_hash) {
    return error_of([&] {
      const NpzFile file(folder / "bad", require_hash);
      for (const std::string& name : file.names()) file.read(name);
    });
  }

  // Writes one byte of the bad file anew: that of `contents` with `mask` flipped.
  void flip(const std::string& contents, std::size_t at, int mask) {
    std::fstream file(folder / "bad", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(contents[at] ^ mask));
  }

  TemporaryFolder folder;
  std::string good;
};

TEST_F(NpzDamage, IsDetectedForEveryTruncation) {
  EXPECT_EQ(refusal(good, true), "(nothing thrown)");
  for (std::size_t bytes = good.size(); bytes-- > 0;) {
    std::filesystem::resize_file(folder / "bad", bytes);
    EXPECT_THAT(refusal(true), HasSubstr("bad")) << bytes;
    EXPECT_THAT(refusal(false), HasSubstr("bad")) << bytes;
  }
  EXPECT_THAT(refusal(good + "x", true), HasSubstr("bad"));
}

TEST_F(NpzDamage, IsDetectedForEveryFlippedBit) {
  ASSERT_EQ(refusal(good, true), "(nothing thrown)");
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    flip(good, bit / 8, 1 << bit % 8);
    ASSERT_THAT(refusal(true), HasSubstr("bad")) << "bit " << bit;
    flip(good, bit / 8, 0);
  }
}

// Files of other writers have no hash over all; zip's CRCs guard the values themselves.
TEST_F(NpzDamage, NeverChangesValuesWithoutAHash) {
  std::string unhashed = good;
  unhashed.replace(unhashed.find("tasuki xxh3"), 6, "nobody");
  ASSERT_EQ(refusal(unhashed, false), "(nothing thrown)");
  const std::string w = "predictor/l1/W";
  const Tensor original = std::get<Tensor>(NpzFile(folder / "good").read(w));
  int accepted = 0;
  for (std::size_t bit = 0; bit < unhashed.size() * 8; bit += 3) {
    flip(unhashed, bit / 8, 1 << bit % 8);
    if (refusal(false) == "(nothing thrown)") {
      ++accepted;
      const NpzFile file(folder / "bad");
      if (file.find(w)) {
        const Tensor read = std::get<Tensor>(file.read(w));
        ASSERT_EQ(read.count(), original.count());
        ASSERT_EQ(std::memcmp(read.raw(), original.raw(), original.bytes()), 0) << "bit " << bit;
      }
    }
    flip(unhashed, bit / 8, 0);
  }
  EXPECT_GT(accepted, 0);  // times and attributes in the zip directory
}

TEST_F(NpzDamage, FullDiskKeepsTheOlderFile) {
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  for (const rlim_t limit : {0, 1, 100, 4096, 100000, 399999}) {
    rlimit small = before;
    small.rlim_cur = limit;
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
    const std::string message = error_of([&] {
      write_npz(folder / "good", {{"x", Tensor::zeros(Shape{100000})}});
    });
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_THAT(message, HasSubstr((folder / "good").string())) << limit;
    EXPECT_EQ(read_file(folder / "good"), good) << limit;
  }
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path())) {
    EXPECT_EQ(file.path().filename(), "good");
    ++files;
  }
  EXPECT_EQ(files, 1);
}

}  // namespace
}  // namespace tasuki
