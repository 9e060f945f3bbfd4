// Images that ranks read from disk: lists, batches, and files that are not images.
#include "dataset/images/image_stream.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "communicator/registry.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "dataset/scatter.hpp"
#include "examples.hpp"
#include "files.hpp"
#include "tests/support/image_files.hpp"
#include "tests/support/skip.hpp"

namespace tasuki {
namespace {

using namespace tasuki::testing;

constexpr std::int64_t side = 8;

// Classes cat and dog with 4 and 3 images each to train on and to evaluate on: ramps.
class ImageStreamTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (comm->rank() == 0)
      for (const char* split : {"train", "val"})
        for (const int label : {0, 1}) write_class(split, label);
    comm->barrier();
  }
  void write_class(const std::string& split, int label) const {
    const auto sub = folder / (split + (label == 0 ? "/cat" : "/dog"));
    std::filesystem::create_directories(sub);
    for (int i = 0; i < 4 - label; ++i) {
      const Image image = make_image(
          20 + i, 24, [&](int c, int y, int x) { return 60 * label + 10 * i + 4 * x + 3 * y * c; });
      write_plain(sub / fmt::format("{}.{}", i, i % 2 ? "png" : "jpg"),
                  i % 2 ? png_file(image) : jpeg_file(image));
    }
  }
  std::shared_ptr<const ImageStream> open(const ImageStreamSettings& settings) {
    ImageLists lists = share_image_lists(
        *comm, [&] { return list_class_folders(folder / "train", folder / "val"); });
    return std::make_shared<ImageStream>(std::move(lists.train), lists.classes, settings);
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

TEST_F(ImageStreamTest, GivesTheSameListOnAllRanks) {
  const ImageLists lists = share_image_lists(
      *comm, [&] { return list_class_folders(folder / "train", folder / "val"); });
  EXPECT_EQ(lists.classes, 2);
  EXPECT_EQ(lists.class_names, (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(lists.train.size(), 7);
  EXPECT_EQ(std::vector(lists.train.labels().begin(), lists.train.labels().end()),
            (std::vector<std::int32_t>{0, 1, 0, 1, 0, 1, 0}));
  EXPECT_EQ(lists.train.path(1), folder / "train/dog/0.jpg");
  EXPECT_EQ(lists.test.path(6), folder / "val/cat/3.png");
}

// The order is that of any other data set; the pixels do not depend on ranks and threads.
TEST_F(ImageStreamTest, DependsOnlyOnSeedEpochAndExample) {
  ImageStreamSettings settings{.side = side, .is_random = true, .seed = 5};
  const auto stream = open(settings);
  const ScatterOptions dealing{.shuffle = true, .seed = 2};
  const Share share = take_share(stream, comm->size(), comm->rank(), dealing);
  std::vector<std::int64_t> all(7);
  for (std::int64_t i = 0; i < 7; ++i) all[static_cast<std::size_t>(i)] = i;
  const std::int64_t values = 3 * side * side;
  const auto row_of = [&](const Batch& batch, std::int64_t row) {
    return batch["x"].span<float>().subspan(static_cast<std::size_t>(row * values),
                                            static_cast<std::size_t>(values));
  };
  for (const int threads : {1, 3}) {
    PrefetchIterator batches(create_shuffled_iterator(share, 2, 1), threads, 4);
    for (std::int64_t step = 0; step < 3 * batches.steps_per_epoch(); ++step) {
      const Batch batch = batches.next();
      const Batch expected = read_batch(*stream, all, batch.epoch());
      for (std::int64_t row = 0; row < batch.size(); ++row) {
        const std::int64_t id = batch.ids()[static_cast<std::size_t>(row)];
        EXPECT_TRUE(std::ranges::equal(row_of(batch, row), row_of(expected, id))) << id;
        EXPECT_EQ(batch["t"].span<std::int32_t>()[static_cast<std::size_t>(row)], id % 2);
      }
    }
  }
  const Batch first = read_batch(*stream, all, 0), second = read_batch(*stream, all, 1);
  EXPECT_FALSE(std::ranges::equal(row_of(first, 0), row_of(second, 0))) << "the same crop again";
  settings.is_random = false;
  settings.shorter = 9;
  const auto fixed = open(settings);
  EXPECT_TRUE(std::ranges::equal(row_of(read_batch(*fixed, all, 0), 0),
                                 row_of(read_batch(*fixed, all, 1), 0)));
}

TEST_F(ImageStreamTest, ScalesPixelsByColourOrMeanImage) {
  const Image grey = make_image(side, side, [](int c, int, int) { return 100 + 50 * c; });
  if (comm->rank() == 0) write_plain(folder / "train/cat/0.jpg", png_file(grey));
  comm->barrier();
  ImageStreamSettings settings{.side = side, .shorter = side};
  settings.scale = {.mean = {0.5, 0.25, 0}, .deviation = {0.5, 1, 2}};
  const std::vector<std::int64_t> first = {0};
  const auto value = [&](std::int64_t c, std::int64_t pixel) {
    const Batch batch = read_batch(*open(settings), first);
    return batch["x"].span<float>()[static_cast<std::size_t>(c * side * side + pixel)];
  };
  EXPECT_FLOAT_EQ(value(0, 3), (100.0f / 255 - 0.5f) / 0.5f);
  EXPECT_FLOAT_EQ(value(2, 60), (200.0f / 255) / 2);
  settings.scale.mean_image = Tensor::full({3, side + 2, side + 4}, 40);
  // The middle of the image begins in row 1, column 2.
  settings.scale.mean_image.data<float>()[(side + 2) * (side + 4) + (side + 4) + 2] = 90;
  EXPECT_FLOAT_EQ(value(1, 0), 60.0f / 255);
  EXPECT_FLOAT_EQ(value(1, 1), 110.0f / 255);
  settings.scale.mean_image = Tensor::full({3, side, side - 1}, 40);
  expect_error(ErrorKind::config, {"3 x H x W values, H and W at least 8, found 3x8x7"},
               [&] { open(settings); });
}

TEST_F(ImageStreamTest, NamesNonImageFiles) {
  if (comm->rank() == 0) write_plain(folder / "train/dog/0.jpg", "just text");
  comm->barrier();
  const auto stream = open({.side = side, .shorter = side});
  stream->check({2, 7});
  expect_error(ErrorKind::data, {"dog/0.jpg (something else)"}, [&] { stream->check({0, 7}); });
  comm->barrier();
  if (comm->rank() == 0) std::filesystem::remove(folder / "train/cat/0.jpg");
  comm->barrier();
  const std::vector<std::int64_t> gone = {0}, text = {1};
  expect_error(ErrorKind::missing, {"train/cat/0.jpg"}, [&] { read_batch(*stream, gone); });
  expect_error(ErrorKind::data, {"dog/0.jpg: expected a JPEG or PNG image"},
               [&] { read_batch(*stream, text); });
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// Files are read when their batch is due, and not kept.
TEST(ImageStreamMemory, DoesNotGrowWithTheFolder) {
  if (has_address_sanitizer) GTEST_SKIP() << "the address sanitizer keeps freed memory";
  const TemporaryFolder folder;
  const std::string file = jpeg_file(
      make_image(200, 200, [](int c, int y, int x) { return y * x * (7 + c) % 251; }), 100);
  constexpr std::int64_t files = 600;
  ImageList list(folder.path());
  write_plain(folder / "0.jpg", file);
  for (std::int64_t i = 1; i < files; ++i)
    std::filesystem::create_hard_link(folder / "0.jpg", folder / fmt::format("{}.jpg", i));
  for (std::int64_t i = 0; i < files; ++i) list.append(fmt::format("{}.jpg", i), 0);
  const auto stream = std::make_shared<ImageStream>(
      std::move(list), 1, ImageStreamSettings{.side = side, .shorter = side});
  const std::int64_t all = files * std::ssize(file), some = all / 5;
  ASSERT_GT(some, 4 << 20);
  PrefetchIterator batches(create_serial_iterator(take_share(stream, 1, 0), 20), 2, 4);
  batches.next();
  const std::int64_t before = resident_bytes();
  std::int64_t most = before;
  for (std::int64_t step = 1; step < batches.steps_per_epoch(); ++step) {
    batches.next();
    most = std::max(most, resident_bytes());
  }
  EXPECT_LT(most - before, some) << "of " << all << " bytes in files";
}

TEST(ImageListFiles, ContainNamesAndLabels) {
  const TemporaryFolder folder;
  const auto file = [&](const std::string& name, const std::string& text) {
    write_plain(folder / name, text);
    return folder / name;
  };
  const auto train = file("train.txt", "a/1.jpg 0\n\n  with blanks.png\t 2 \r\nb.jpg 1\n");
  const auto test = file("test.txt", "c.jpg 2\n");
  const ImageLists lists = read_image_lists(train, test, "/root");
  EXPECT_EQ(lists.classes, 3);
  ASSERT_EQ(lists.train.size(), 3);
  EXPECT_EQ(lists.train.path(1), "/root/with blanks.png");
  EXPECT_EQ(lists.train.labels()[1], 2);
  EXPECT_EQ(lists.test.path(0), "/root/c.jpg");

  expect_error(ErrorKind::data, {"few.txt: line 1, label", "3"},
               [&] { read_image_lists(train, file("few.txt", "c.jpg 3\n"), ""); });
  expect_error(ErrorKind::data, {"many.txt: line 1, label", "1048575", "'1048576'"},
               [&] { read_image_lists(file("many.txt", "c.jpg 1048576\n"), test, ""); });
  expect_error(ErrorKind::data, {"word.txt: line 2, label", "'dog'"},
               [&] { read_image_lists(file("word.txt", "a 1\nb dog\n"), test, ""); });
  expect_error(ErrorKind::data, {"bare.txt: line 1", "its label, found 'b.jpg'"},
               [&] { read_image_lists(file("bare.txt", "b.jpg\n"), test, ""); });
  expect_error(ErrorKind::data, {"empty.txt", "found none"},
               [&] { read_image_lists(train, file("empty.txt", "\n"), ""); });
  expect_error(ErrorKind::missing, {"absent.txt"},
               [&] { read_image_lists(folder / "absent.txt", test, ""); });
}

}  // namespace
}  // namespace tasuki
