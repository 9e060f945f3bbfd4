// Texts in files and folders.

#include "dataset/files/text_windows.hpp"

#include <gtest/gtest.h>

#include "files.hpp"

namespace tasuki {
namespace {

using testing::expect_error;
using testing::write_gzip;
using testing::write_plain;

// Files in the order of their paths, of which the second is packed and damaged at its end.
TEST(ReadText, StopsAtTheRequestedSize) {
  const testing::TemporaryFolder folder;
  const auto place = folder / "text";
  std::filesystem::create_directories(place);
  write_plain(place / "a", "first ");
  write_gzip(place / "b", "second");
  write_plain(place / ".hidden", "hidden");
  std::filesystem::resize_file(place / "b", std::filesystem::file_size(place / "b") - 3);
  EXPECT_EQ(read_text(place, 4), "firs");
  EXPECT_EQ(read_text(place, 6), "first ");
  EXPECT_EQ(read_text(place, 11), "first secon");
  expect_error(ErrorKind::data, {"expected a checksum"}, [&] { read_text(place, 13); });
  write_gzip(place / "b", "second");
  EXPECT_EQ(read_text(place, 13), "first second");
  EXPECT_EQ(read_text(place, 12), "first second");
}

}  // namespace
}  // namespace tasuki
