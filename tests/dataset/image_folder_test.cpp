// Folders of images, from files to batches on every rank.
#include "tasuki/dataset/images/image_folder.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "examples.hpp"
#include "files.hpp"
#include "image_files.hpp"
#include "tasuki/communicator/registry.hpp"
#include "tasuki/core/host_name.hpp"
#include "tasuki/dataset/images/augmentation.hpp"
#include "tasuki/dataset/in_memory.hpp"
#include "tasuki/dataset/iterators/prefetch_iterator.hpp"

namespace {
// How a disk that takes its time is asked for images.
struct Openings {
  std::chrono::milliseconds delay{0};
  std::mutex mutex;
  std::set<std::thread::id> threads;
} openings;
}  // namespace

// In the C library's place, for the streams of the C++ library.
extern "C" std::FILE* fopen64(const char* path, const char* mode) {
  if (openings.delay.count() > 0) {
    std::this_thread::sleep_for(openings.delay);
    const std::lock_guard lock(openings.mutex);
    openings.threads.insert(std::this_thread::get_id());
  }
  static const auto open =
      reinterpret_cast<std::FILE* (*)(const char*, const char*)>(dlsym(RTLD_NEXT, "fopen64"));
  return open(path, mode);
}

namespace tasuki {
namespace {

using namespace tasuki::testing;

// How the first image begins where it lies in memory, behind its name.
std::span<const std::byte> first_file(const Dataset& dataset) {
  const std::span<const std::byte> record = dataset.array(0).examples[0];
  const auto name = std::ranges::find(record, std::byte{0}) - record.begin();
  return record.subspan(static_cast<std::size_t>(name) + 1, 8);
}

// Classes bird, cat and dog with 5, 3 and 4 images, all of one colour: 20 * class + number.
class ImageFolder : public ::testing::Test {
 protected:
  static constexpr int sizes[] = {5, 3, 4}, total = 12, side = 8;

  void SetUp() override {
    if (comm->rank() == 0) {
      write_split("train");
      write_split("test");
    }
    comm->barrier();
  }
  void write_split(const std::string& split) const {
    const char* const names[] = {"bird", "cat", "dog"};
    for (int label = 0; label < 3; ++label) {
      const auto sub = folder / (split + '/' + names[label]);
      std::filesystem::create_directories(sub);
      write_plain(sub / "notes.txt", "no image");
      write_plain(sub / ".hidden.png", "no image");
      for (int i = 0; i < sizes[label]; ++i) {
        const Image image = make_image(8 + i, 11, [&](int, int, int) { return 20 * label + i; });
        write_plain(sub / fmt::format("{}.{}", i, i % 2 ? "png" : "JPG"),
                    i % 2 ? png_file(image) : jpeg_file(image));
      }
    }
  }
  std::unique_ptr<DataSource> open(DataSplit split = DataSplit::train) const {
    return open_image_folder(folder.path(), split, side);
  }
  Share scatter(int shards = 0) {
    return scatter_dataset([&] { return open(); }, *comm, {.shuffle = true, .shards = shards});
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

TEST_F(ImageFolder, ClassesTakeTurns) {
  const auto source = open();
  EXPECT_EQ(source->header().count, total);
  EXPECT_EQ(source->header().field("t").classes, 3);
  EXPECT_EQ(source->header().field("x").shape, (Shape{3, side, side}));
  const auto all = read_dataset(*source);
  std::vector<int> labels;
  for (std::int64_t i = 0; i < total; ++i) {
    labels.push_back(label_in(*all, i));
    const std::int64_t number = i / 3;
    EXPECT_NEAR(std::to_integer<int>(stored_in(*all, "x", i)[30]), 20 * labels.back() + number, 4);
  }
  EXPECT_EQ(labels, (std::vector<int>{0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 2, 0}));
}

TEST_F(ImageFolder, FilesAreReadByThemselves) {
  const auto files = image_files_in(folder / "test/dog");
  ASSERT_EQ(files.size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(files));
  const auto plain = read_dataset(*open_image_files({{files[3]}, {files[0]}}, 0, side));
  EXPECT_EQ(plain->header().fields.size(), 1u);
  ASSERT_EQ(plain->size(), 2);
  for (const std::int64_t i : {0, 1})
    EXPECT_NEAR(std::to_integer<int>(stored_in(*plain, "x", i)[30]), 40 + (i == 0 ? 3 : 0), 4);
  const auto labelled = read_dataset(*open_image_files({{files[1], 6}}, 7, side));
  EXPECT_EQ(labelled->header().field("t").classes, 7);
  EXPECT_EQ(label_in(*labelled, 0), 6);
}

TEST_F(ImageFolder, FilesAreScatteredAndDecodedWhereTheyAreRead) {
  const auto reference = read_dataset(*open());
  Share share = scatter();
  EXPECT_GT(share.dataset->size(), 0);
  EXPECT_TRUE(starts_image(first_file(*share.dataset))) << "decoded before it is read";
  share.dataset = transformed(
      share.dataset, create_transform(augmentation, share.dataset->header().field("x"), 3));
  const Transform transform = create_transform(augmentation, reference->header().field("x"), 3);
  PrefetchIterator batches(create_shuffled_iterator(share, 3, 1), 2, 4);
  std::int64_t seen = 0;
  for (std::int64_t step = 0; step < batches.steps_per_epoch(); ++step) {
    const Batch batch = batches.next();
    seen += batch.size();
    for (std::size_t i = 0; i < batch.ids().size(); ++i) {
      EXPECT_EQ(batch["t"].data<std::int32_t>()[i], label_in(*reference, batch.ids()[i]));
      std::vector<float> expected(3 * side * side);
      transform(stored_in(*reference, "x", batch.ids()[i]).data(), {0, batch.ids()[i]},
                expected.data());
      const float* row = batch["x"].data<float>() + i * expected.size();
      EXPECT_TRUE(std::equal(expected.begin(), expected.end(), row));
    }
  }
  const Tensor all = Tensor::from(std::span<const std::int64_t>(&seen, 1), Shape{});
  comm->allreduce(all);
  EXPECT_EQ(all.item(), total);
}

TEST_F(ImageFolder, ShardsDealTheSameImages) {
  const int shards = comm->size() * 2;
  const Share share = scatter(shards);
  EXPECT_EQ(share.plan.shards(), shards);
  for (std::int64_t i = 0; i < share.dataset->size(); ++i) {
    const int shown = std::to_integer<int>(stored_in(*share.dataset, "x", i)[0]) / 20;
    EXPECT_NEAR(shown, label_in(*share.dataset, i), 1);
  }
}

TEST_F(ImageFolder, ABrokenFileIsNamedByTheRankThatReadsIt) {
  if (comm->rank() == 0) {
    const auto file = folder / "train/cat/2.JPG";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) / 2);
  }
  comm->barrier();
  const Share share = scatter();
  const auto iterator = create_serial_iterator(share, total);
  int found = 0;
  for (std::int64_t i = 0; i < share.dataset->size(); ++i) {
    if (share.dataset->id(i) != 7) continue;
    ++found;
    expect_error(ErrorKind::data, {"train/cat/2.JPG", "JPEG", "found damage"},
                 [&] { iterator->next(); });
  }
  const Tensor all = Tensor::full({1}, found);
  comm->allreduce(all);
  EXPECT_EQ(all.item(), 1);
}

// The FIFO is found before any file is read; no process writes into it.
TEST_F(ImageFolder, WhatIsNoImageIsFoundAtTheStart) {
  if (comm->rank() == 0) {
    write_plain(folder / "train/dog/3.png", "GIF89a, not one of ours");
    write_plain(folder / "train/dog/4.JPEG", "");
  }
  comm->barrier();
  const auto read_one = [&](DataSplit split) {
    const auto source = open(split);
    RecordBlock block;
    source->read(1, block);
  };
  expect_error(ErrorKind::data,
               {"found 2 among 13 files on " + host_name() + " that are none",
                "train/dog/3.png (something else)", "train/dog/4.JPEG (an empty file)"},
               [&] { read_one(DataSplit::train); });
  comm->barrier();
  if (comm->rank() == 0) {
    for (const char* const name : {"6.jpg", "7.jpg", "8.jpg", "9.jpg"})
      EXPECT_EQ(::mkfifo((folder / "test/cat" / name).c_str(), 0600), 0);
  }
  comm->barrier();
  expect_error(
      ErrorKind::data,
      {"found 4 among 16 files", "test/cat/6.jpg (not a regular file)", "/8.jpg", ", ...;"},
      [&] { read_one(DataSplit::test); });
  // Looked at when asked to, and not once more when it is read.
  const auto checked = open(DataSplit::test);
  checked->keep_first(6);
  checked->check();
  comm->barrier();
  if (comm->rank() == 0) write_plain(folder / "test/dog/0.JPG", "no image any more");
  comm->barrier();
  RecordBlock block;
  checked->read(1, block);
  expect_error(ErrorKind::data, {"test/dog/0.JPG (something else)"},
               [&] { open(DataSplit::test)->check(); });
  // Files beyond those asked for do not count.
  const auto source = open();
  source->keep_first(6);
  source->read(6, block);
}

TEST_F(ImageFolder, FilesAreLookedAtSideBySide) {
  const auto source = open();
  openings.delay = std::chrono::milliseconds(100);
  source->check();
  openings.delay = {};
  EXPECT_GE(openings.threads.size(), 4u);
}

TEST_F(ImageFolder, WhatIsMissingIsNamed) {
  const auto fails_with = [&](ErrorKind kind, const std::vector<std::string>& words,
                              DataSplit split = DataSplit::train) {
    comm->barrier();
    expect_error(kind, words, [&] { open(split); });
    comm->barrier();
  };
  const auto change = [&](const std::function<void()>& work) {
    comm->barrier();
    if (comm->rank() == 0) work();
    comm->barrier();
  };
  change([&] { std::filesystem::rename(folder / "test/dog", folder / "test/doge"); });
  fails_with(ErrorKind::data, {"test", "'dog', found 'doge'"}, DataSplit::test);
  change([&] { std::filesystem::rename(folder / "test", folder / "tests"); });
  fails_with(ErrorKind::missing, {"'test' or 'val'"}, DataSplit::test);
  change([&] { std::filesystem::remove_all(folder / "train/cat"); });
  change([&] { std::filesystem::create_directories(folder / "train/cat"); });
  fails_with(ErrorKind::missing, {"train/cat", ".png"});
  change([&] { std::filesystem::remove_all(folder / "train"); });
  fails_with(ErrorKind::missing, {"train", "folder of images"});
  change([&] { std::filesystem::create_directories(folder / "train"); });
  fails_with(ErrorKind::missing, {"train", "subfolder"});
}

}  // namespace
}  // namespace tasuki
