// IDX files, whole and broken in every way that was met.
#include "dataset/files/idx.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <string>

#include "dataset/in_memory.hpp"
#include "examples.hpp"
#include "files.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;
namespace fs = std::filesystem;

std::string contents_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Idx : public ::testing::Test {
 protected:
  static constexpr int count = 50, rows = 5, columns = 3;

  // Opens and reads everything.
  std::shared_ptr<InMemoryDataset> read() const {
    const auto source = open_idx(images, labels);
    return read_dataset(*source);
  }
  void expect_data_error(const std::vector<std::string>& words) const {
    expect_error(ErrorKind::data, words, [&] { read(); });
  }

  TemporaryFolder folder;
  fs::path images = folder / "images", labels = folder / "labels";
  std::string image_bytes = idx_images(count, rows, columns), label_bytes = idx_labels(count);
};

// Names of the two ways in which a file may be packed.
class IdxPacked : public Idx, public ::testing::WithParamInterface<bool> {
 protected:
  void write() const {
    const auto write_file = GetParam() ? write_gzip : write_plain;
    write_file(images, image_bytes);
    write_file(labels, label_bytes);
  }
};
INSTANTIATE_TEST_SUITE_P(Files, IdxPacked, ::testing::Values(false, true),
                         [](const auto& info) { return info.param ? "gzip" : "plain"; });

TEST_P(IdxPacked, DecodesValues) {
  write();
  const auto dataset = read();
  ASSERT_EQ(dataset->size(), count);
  EXPECT_EQ(shape_in(*dataset), (Shape{1, rows, columns}));
  EXPECT_EQ(classes_in(*dataset), 10);
  std::vector<std::int64_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  const Batch batch = read_batch(*dataset, all);
  const std::span<const float> x = batch["x"].span<float>();
  const std::span<const std::int32_t> t = batch["t"].span<std::int32_t>();
  for (int i = 0; i < count; ++i) {
    EXPECT_EQ(t[i], label(i));
    for (int j = 0; j < rows * columns; ++j)
      ASSERT_EQ(x[i * rows * columns + j], pixel(i, j) / 255.0f);
  }
}

TEST_P(IdxPacked, ReadsImagesAndLabelsSeparately) {
  write();
  EXPECT_EQ(idx_contents(images), IdxContents::images);
  EXPECT_EQ(idx_contents(labels), IdxContents::labels);
  const auto apart = read_dataset(*open_idx_images(images)), together = read();
  EXPECT_EQ(apart->header().fields.size(), 1u);
  ASSERT_EQ(apart->size(), count);
  const std::vector<std::int32_t> found = read_idx_labels(labels, 10);
  ASSERT_EQ(found.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) {
    EXPECT_TRUE(std::ranges::equal(stored_in(*apart, "x", i), stored_in(*together, "x", i)));
    EXPECT_EQ(found[i], label(i));
  }
  expect_error(ErrorKind::data, {"labels", "from 0 to 6", "found 7"},
               [&] { read_idx_labels(labels, 7); });
  write_plain(images, "no");
  EXPECT_EQ(idx_contents(images), IdxContents::nothing);
}

TEST_P(IdxPacked, AcceptsEmptyFiles) {
  image_bytes = idx_images(0, rows, columns);
  label_bytes = idx_labels(0);
  write();
  EXPECT_EQ(read()->size(), 0);
}

TEST_P(IdxPacked, RejectsTruncation) {
  for (const std::size_t length : {0ul, 3ul, 4ul, 15ul, 16ul, 17ul, image_bytes.size() - 1}) {
    const std::string whole = image_bytes;
    image_bytes.resize(length);
    write();
    expect_data_error({"images", "expected"});
    image_bytes = whole;
  }
  label_bytes.pop_back();
  write();
  expect_data_error({"labels", "expected 58 bytes (50 labels)", "57"});
}

TEST_P(IdxPacked, RejectsTrailingBytes) {
  image_bytes += 'x';
  write();
  expect_data_error({images.string(), "expected 766 bytes (50 images of 5 x 3)", "found"});
}

TEST_P(IdxPacked, DoesNotReadUnusedEnd) {
  image_bytes += 'x';
  label_bytes += 'x';
  write();
  if (!GetParam()) return expect_data_error({"images", "767"});
  const auto source = open_idx(images, labels);
  source->keep_first(count - 1);
  EXPECT_EQ(read_dataset(*source)->size(), count - 1);
}

TEST_P(IdxPacked, RejectsWrongMagic) {
  image_bytes.replace(0, 4, big_endian(0x0D03));
  write();
  expect_data_error({images.string(), "0x00000803", "0x00000d03"});
}

TEST_P(IdxPacked, RejectsSwappedByteOrder) {
  for (std::size_t at = 0; at < 16; at += 4)
    std::reverse(image_bytes.begin() + at, image_bytes.begin() + at + 4);
  write();
  expect_data_error({images.string(), "byte order is swapped"});
}

TEST_P(IdxPacked, RejectsSwappedImagesAndLabels) {
  std::swap(image_bytes, label_bytes);
  write();
  expect_data_error({images.string(), "mixed up"});
}

TEST_P(IdxPacked, RejectsDifferentNumberOfLabels) {
  label_bytes = idx_labels(count + 1);
  write();
  expect_data_error({labels.string(), "expected 50 labels", images.string(), "found 51"});
}

TEST_P(IdxPacked, RejectsOutOfRangeLabels) {
  label_bytes[8 + 41] = 10;
  write();
  expect_data_error({labels.string(), "expected labels from 0 to 9", "found 10", "example 41"});
}

TEST_P(IdxPacked, RejectsImpossibleDimensions) {
  image_bytes.replace(8, 4, big_endian(0));
  write();
  expect_data_error({images.string(), "0 x 3"});
  // A number of images that would fill all memory must not be believed.
  image_bytes.replace(8, 4, big_endian(5)).replace(4, 4, big_endian(0xFFFFFFFF));
  label_bytes.replace(4, 4, big_endian(0xFFFFFFFF));
  write();
  expect_data_error({images.string(), "4294967295 images"});
}

TEST_F(Idx, RejectsDamagedGzip) {
  // Random pixels do not shrink, so that bytes of the file are far from its ends.
  write_gzip(images, image_bytes);
  write_gzip(labels, label_bytes);
  const std::string whole = contents_of(images);
  write_plain(images, whole.substr(0, whole.size() / 2));
  expect_data_error({images.string(), "expected 766 bytes", "found the end"});
  write_plain(images, whole.substr(0, whole.size() - 4));  // the length at the very end
  expect_data_error({images.string()});
  std::string wrong_checksum = whole;
  wrong_checksum[whole.size() - 8] ^= 1;
  write_plain(images, wrong_checksum);
  expect_data_error({images.string(), "damage"});
}

// zlib's own reader passes over what follows the last member.
TEST_F(Idx, RejectsBytesAfterGzip) {
  write_gzip(images, image_bytes);
  write_gzip(labels, label_bytes);
  const std::string whole = contents_of(images);
  EXPECT_EQ(read()->size(), count);
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x", "found 1 more bytes"},
      {std::string(300'000, '\0'), "found 300000 more bytes"},
      {"\x1f", "found 1 more bytes"},
      {"garbage", "found 7 more bytes"}};
  for (const auto& [extra, found] : cases) {
    write_plain(images, whole + extra);
    expect_data_error({images.string(), "after its gzip data", found});
  }
  // A file that is split into two members, as some tools do.
  std::string members;
  for (const std::string& part : {image_bytes.substr(0, 100), image_bytes.substr(100)}) {
    write_gzip(images, part);
    members += contents_of(images);
  }
  write_plain(images, members);
  EXPECT_EQ(read()->size(), count);
  write_plain(images, members + members);
  expect_data_error({images.string(), "found more"});
  write_plain(images, members.substr(0, members.size() - 9));
  expect_data_error({images.string(), "found the end"});
}

TEST_F(Idx, RejectsMissingFiles) {
  write_plain(images, image_bytes);
  expect_error(ErrorKind::missing, {labels.string()}, [&] { read(); });
  fs::create_directory(labels);
  expect_error(ErrorKind::missing, {labels.string()}, [&] { read(); });
}

}  // namespace
}  // namespace tasuki
