// CIFAR's binary files.
#include "dataset/files/cifar.hpp"

#include <gtest/gtest.h>

#include <string>

#include "dataset/catalog.hpp"
#include "dataset/in_memory.hpp"
#include "examples.hpp"
#include "files.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

constexpr int pixels = 3 * 32 * 32;

// Pictures first .. first + count - 1; with two labels the coarse one is wrong on purpose.
std::string pictures(int first, int count, int label_bytes, int classes) {
  std::string bytes;
  for (int i = first; i < first + count; ++i) {
    if (label_bytes == 2) bytes.push_back(static_cast<char>(255));
    bytes.push_back(static_cast<char>(label(i, classes)));
    for (int j = 0; j < pixels; ++j) bytes.push_back(static_cast<char>(pixel(i, j)));
  }
  return bytes;
}

void expect_pictures(const InMemoryDataset& dataset, int count, int classes) {
  ASSERT_EQ(dataset.size(), count);
  EXPECT_EQ(shape_in(dataset), (Shape{3, 32, 32}));
  EXPECT_EQ(classes_in(dataset), classes);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::vector<std::byte> values = stored_in(dataset, "x", i);
    EXPECT_EQ(label_in(dataset, i), label(i, classes));
    for (int j = 0; j < pixels; ++j)
      ASSERT_EQ(std::to_integer<int>(values[static_cast<std::size_t>(j)]), pixel(i, j));
  }
}

class Cifar : public ::testing::Test {
 protected:
  void write_cifar10() const {
    for (int i = 0; i < 5; ++i) write_plain(folder / batch(i + 1), pictures(4 * i, 4, 1, 10));
  }
  static std::string batch(int i) { return "data_batch_" + std::to_string(i) + ".bin"; }
  std::shared_ptr<InMemoryDataset> read(const std::string& name, DataSplit split) const {
    const auto source = open_dataset(name, folder.path(), split);
    return read_dataset(*source);
  }
  TemporaryFolder folder;
};

TEST_F(Cifar, ReadsTenClassesFromFiveFiles) {
  write_cifar10();
  expect_pictures(*read("cifar10", DataSplit::train), 20, 10);
  write_plain(folder / "test_batch.bin", pictures(0, 3, 1, 10));
  expect_pictures(*read("cifar10", DataSplit::test), 3, 10);
}

TEST_F(Cifar, ReadsAHundredFineClasses) {
  write_plain(folder / "train.bin", pictures(0, 30, 2, 100));
  write_plain(folder / "test.bin", pictures(0, 7, 2, 100));
  expect_pictures(*read("cifar100", DataSplit::train), 30, 100);
  expect_pictures(*read("cifar100", DataSplit::test), 7, 100);
}

TEST_F(Cifar, NamesMissingFileOfSeveral) {
  write_cifar10();
  std::filesystem::remove(folder / batch(3));
  expect_error(ErrorKind::missing, {batch(3)}, [&] { read("cifar10", DataSplit::train); });
}

TEST_F(Cifar, RejectsTruncation) {
  write_cifar10();
  const std::string whole = pictures(4, 4, 1, 10);
  write_plain(folder / batch(2), whole.substr(0, whole.size() - 1));
  expect_error(ErrorKind::data, {batch(2), "3073", std::to_string(whole.size() - 1)},
               [&] { read("cifar10", DataSplit::train); });
  write_plain(folder / batch(2), whole.substr(0, whole.size() - 3073));
  expect_error(ErrorKind::data, {batch(2), "expected 4 pictures", "found 3"},
               [&] { read("cifar10", DataSplit::train); });
  write_plain(folder / batch(2), "");
  expect_error(ErrorKind::data, {batch(2)}, [&] { read("cifar10", DataSplit::train); });
}

TEST_F(Cifar, RejectsOutOfRangeLabels) {
  write_cifar10();
  std::string bytes = pictures(8, 4, 1, 10);
  bytes[3073 * 2] = 11;
  write_plain(folder / batch(3), bytes);
  expect_error(ErrorKind::data, {batch(3), "0 to 9", "found 11", "example 2"},
               [&] { read("cifar10", DataSplit::train); });
}

TEST_F(Cifar, RejectsFilesChangedAfterOpening) {
  write_cifar10();
  const auto source = open_dataset("cifar10", folder.path(), DataSplit::train);
  write_plain(folder / batch(5), pictures(0, 3, 1, 10));
  expect_error(ErrorKind::data, {batch(5), "4 pictures"}, [&] { read_dataset(*source); });
}

}  // namespace
}  // namespace tasuki
