// Folders of images, from files to batches on every rank.
#include "dataset/images/image_folder.hpp"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "communicator/registry.hpp"
#include "core/environment.hpp"
#include "dataset/images/create_transform.hpp"
#include "dataset/images/image_check.hpp"
#include "dataset/images/image_search.hpp"
#include "dataset/in_memory.hpp"
#include "dataset/iterators/prefetch_iterator.hpp"
#include "examples.hpp"
#include "files.hpp"
#include "tests/support/image_files.hpp"

namespace {
// How a disk that takes its time is asked for images.
struct Openings {
  std::chrono::milliseconds delay{0};
  std::mutex mutex;
  std::set<std::thread::id> threads;
} openings;

bool is_memory_exhausted = false;
}  // namespace

// In libpng's place.
extern "C" png_structp png_create_read_struct(png_const_charp version, png_voidp argument,
                                              png_error_ptr on_error, png_error_ptr on_warning) {
  static const auto create =
      reinterpret_cast<png_structp (*)(png_const_charp, png_voidp, png_error_ptr, png_error_ptr)>(
          dlsym(RTLD_NEXT, "png_create_read_struct"));
  return is_memory_exhausted ? nullptr : create(version, argument, on_error, on_warning);
}

namespace {
std::FILE* open_slowly(const char* name_of_function, const char* path, const char* mode) {
  if (openings.delay.count() > 0) {
    std::this_thread::sleep_for(openings.delay);
    const std::lock_guard lock(openings.mutex);
    openings.threads.insert(std::this_thread::get_id());
  }
  const auto open = reinterpret_cast<std::FILE* (*)(const char*, const char*)>(
      dlsym(RTLD_NEXT, name_of_function));
  return open(path, mode);
}
}  // namespace

// In the C library's place, for the streams of the C++ library, which calls one or the other.
extern "C" std::FILE* fopen(const char* path, const char* mode) {
  return open_slowly("fopen", path, mode);
}
extern "C" std::FILE* fopen64(const char* path, const char* mode) {
  return open_slowly("fopen64", path, mode);
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
    return open_image_folder(folder.path(), split, {.side = side});
  }
  Share scatter(int shards = 0) {
    return scatter_dataset([&] { return open(); }, *comm, {.shuffle = true, .shards = shards});
  }

  std::unique_ptr<Communicator> comm = create_communicator("naive");
  TemporaryFolder folder{comm.get()};
};

TEST_F(ImageFolder, InterleavesClasses) {
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

TEST_F(ImageFolder, ReadsSingleFiles) {
  const auto files = ImageSearch(folder / "test/dog").images_in(folder / "test/dog");
  ASSERT_EQ(files.size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(files));
  const auto plain = read_dataset(*open_image_files({{files[3]}, {files[0]}}, 0, {.side = side}));
  EXPECT_EQ(plain->header().fields.size(), 1u);
  ASSERT_EQ(plain->size(), 2);
  for (const std::int64_t i : {0, 1})
    EXPECT_NEAR(std::to_integer<int>(stored_in(*plain, "x", i)[30]), 40 + (i == 0 ? 3 : 0), 4);
  const auto labelled = read_dataset(*open_image_files({{files[1], 6}}, 7, {.side = side}));
  EXPECT_EQ(labelled->header().field("t").classes, 7);
  EXPECT_EQ(label_in(*labelled, 0), 6);
}

TEST_F(ImageFolder, ScattersFilesAndDecodesLocally) {
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

TEST_F(ImageFolder, GivesTheSameImagesInShards) {
  const int shards = comm->size() * 2;
  const Share share = scatter(shards);
  EXPECT_EQ(share.plan.shards(), shards);
  for (std::int64_t i = 0; i < share.dataset->size(); ++i) {
    const int shown = std::to_integer<int>(stored_in(*share.dataset, "x", i)[0]) / 20;
    EXPECT_NEAR(shown, label_in(*share.dataset, i), 1);
  }
}

TEST_F(ImageFolder, NamesDamagedFileOnTheReadingRank) {
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
TEST_F(ImageFolder, RejectsNonImagesAtTheStart) {
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
               {"2 of 13 files on " + host_name() + " cannot be read as JPEG or PNG images: ",
                "train/dog/3.png (something else)", "train/dog/4.JPEG (an empty file)",
                "; get them again, remove them, or give --skip-damaged"},
               [&] { read_one(DataSplit::train); });
  comm->barrier();
  if (comm->rank() == 0) {
    for (const char* const name : {"6.jpg", "7.jpg", "8.jpg", "9.jpg"})
      EXPECT_EQ(::mkfifo((folder / "test/cat" / name).c_str(), 0600), 0);
  }
  comm->barrier();
  expect_error(ErrorKind::data,
               {"4 of 16 files", "test/cat/6.jpg (not a regular file)", "/8.jpg", ", ...;"},
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

// Below the folder of the split, in their order.
std::vector<std::string> names_in(const DataSource& source, const std::filesystem::path& split) {
  std::vector<std::string> names;
  for (const ImageFile& file : source.image_files())
    names.push_back(file.path.lexically_relative(split).string());
  return names;
}

// A collection as it grows: subfolders, links to files and folders, and circles of links.
TEST_F(ImageFolder, ReadsSubfoldersAndLinks) {
  namespace fs = std::filesystem;
  if (comm->rank() == 0) {
    const auto move = [&](const std::string& from, const std::string& to) {
      fs::create_directories((folder / to).parent_path());
      fs::rename(folder / from, folder / to);
    };
    move("train/cat/1.png", "train/cat/more/deep/1.png");
    move("train/cat/2.JPG", "elsewhere/2.JPG");
    move("train/dog", "dogs");
    fs::create_directory_symlink(folder / "elsewhere", folder / "train/cat/z-link");
    fs::create_directory_symlink(folder / "dogs", folder / "train/dog");
    fs::create_symlink(folder / "dogs/0.JPG", folder / "train/bird/one.JPG");
    for (const char* const circle : {"train/cat/self", "elsewhere/back"})
      fs::create_directory_symlink(folder / "train/cat", folder / circle);
    fs::create_directory_symlink("..", folder / "train/cat/more/above");
    fs::create_directory_symlink("../..", folder / "train/bird/all");
    fs::create_directory_symlink("/", folder / "train/bird/root");
  }
  comm->barrier();
  const auto source = open();
  EXPECT_EQ(names_in(*source, folder / "train"),
            (std::vector<std::string>{"bird/0.JPG", "cat/0.JPG", "dog/0.JPG", "bird/1.png",
                                      "cat/more/deep/1.png", "dog/1.png", "bird/2.JPG",
                                      "cat/z-link/2.JPG", "dog/2.JPG", "bird/3.png", "dog/3.png",
                                      "bird/4.JPG", "bird/one.JPG"}));
  source->check();
}

TEST_F(ImageFolder, CountsSkippedFiles) {
  if (comm->rank() == 0) {
    write_plain(folder / "train/bird/a.webp", "RIFF....WEBP");
    write_plain(folder / "train/cat/sub.GIF", "GIF89a");
    write_plain(folder / "train/cat/photo",
                png_file(make_image(4, 4, [](int, int, int) { return 1; })));
    write_plain(folder / "train/stray.jpg", "an image without a class");
    std::filesystem::create_symlink("nowhere", folder / "train/dog/lost");
  }
  comm->barrier();
  const std::vector<std::string> classes = image_classes(folder / "train");
  const auto list = list_image_folder(folder / "train", DataSplit::train, classes);
  EXPECT_EQ(std::ssize(list.files), total);
  EXPECT_EQ(
      list.left_out,
      folder.path().string() +
          "/train: 5 files are left out, for example stray.jpg (not in the folder of a class); "
          "only JPEG and PNG images named .jpg, .jpeg or .png are read");
  EXPECT_EQ(list_image_folder(folder / "test", DataSplit::test, classes).left_out, "");
}

// However many there are, beside other files that are not counted.
TEST_F(ImageFolder, CountsAllImagesWithOtherNames) {
  const TemporaryFolder place;
  std::filesystem::create_directories(place / "a");
  constexpr int images = 300;
  for (int i = 0; i < images; ++i) {
    write_plain(place / fmt::format("a/{}.json", i), "{}");
    write_plain(place / fmt::format("a/{}.dat", i), "no image");
    write_plain(place / fmt::format("a/{}", i), "\xFF\xD8\xFF");
  }
  ImageSearch search(place.path());
  EXPECT_TRUE(search.images_in(place / "a").empty());
  EXPECT_EQ(search.left_out().count, images);
}

TEST_F(ImageFolder, NamesFormatsOfSkippedFiles) {
  const auto example_of = [&](const std::string& name, const std::string& contents) {
    const TemporaryFolder place;
    std::filesystem::create_directories(place / "a");
    write_plain(place / ("a/" + name), contents);
    ImageSearch search(place.path());
    EXPECT_TRUE(search.images_in(place / "a").empty());
    return search.left_out().example;
  };
  EXPECT_EQ(example_of("x.WEBP", ""), "a/x.WEBP (WebP)");
  EXPECT_EQ(example_of("x.tiff", ""), "a/x.tiff (TIFF)");
  EXPECT_EQ(example_of("x.dat", "II*" + std::string(8, ' ')), "");
  EXPECT_EQ(example_of("x.dat", std::string("II*\0", 4)), "a/x.dat (TIFF)");
  EXPECT_EQ(example_of("x", "\xFF\xD8\xFF"), "a/x (its name has another ending)");
  EXPECT_EQ(example_of("notes.txt", "GIF is a format"), "");
  EXPECT_EQ(example_of("notes.xml", "GIF89a"), "");
  EXPECT_EQ(example_of("a\x1B[31m\n.bmp", ""), "a/a?[31m?.bmp (BMP)");
}

// The test folder may lack a class, or have it empty; it may not have another one.
TEST_F(ImageFolder, AllowsTestFolderWithFewerClasses) {
  if (comm->rank() == 0) {
    std::filesystem::remove_all(folder / "test/bird");
    for (const auto& file : std::filesystem::directory_iterator(folder / "test/cat"))
      std::filesystem::remove(file);
  }
  comm->barrier();
  const auto source = open(DataSplit::test);
  EXPECT_EQ(source->header().count, 4);
  EXPECT_EQ(source->header().field("t").classes, 3);
  const auto all = read_dataset(*source);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(label_in(*all, i), 2);
  comm->barrier();
  if (comm->rank() == 0) std::filesystem::remove_all(folder / "test/dog");
  comm->barrier();
  expect_error(ErrorKind::missing, {"test", "found none"}, [&] { open(DataSplit::test); });
}

TEST_F(ImageFolder, SkipsExamplesByNumber) {
  const auto source = open();
  source->keep_first(6);
  const std::vector<std::int64_t> numbers = {0, 4};
  source->leave_out(numbers);
  EXPECT_EQ(source->header().count, 4);
  EXPECT_EQ(names_in(*source, folder / "train"),
            (std::vector<std::string>{"cat/0.JPG", "dog/0.JPG", "bird/1.png", "dog/1.png"}));
  const auto all = read_dataset(*source);
  EXPECT_EQ(label_in(*all, 0), 1);
  EXPECT_EQ(label_in(*all, 3), 2);
}

TEST_F(ImageFolder, FindsAllUndecodableFiles) {
  if (comm->rank() == 0) {
    for (const char* const name : {"train/cat/1.png", "train/dog/2.JPG"}) {
      const auto file = folder / name;
      std::filesystem::resize_file(file, std::filesystem::file_size(file) - 20);
    }
    const auto file = folder / "train/bird/0.JPG";
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 2);
    write_plain(folder / "train/bird/4.JPG", "");
    std::filesystem::remove(folder / "train/dog/0.JPG");
    EXPECT_EQ(::mkfifo((folder / "train/dog/0.JPG").c_str(), 0600), 0);
  }
  comm->barrier();
  const auto source = open();
  for (const int threads : {1, 3}) {
    const ImageFindings found = decode_images(source->image_files(), threads);
    std::vector<std::int64_t> numbers;
    for (const ImageProblem& each : found.unreadable) numbers.push_back(each.number);
    EXPECT_EQ(numbers, (std::vector<std::int64_t>{2, 4, 8, 11}));
    EXPECT_THAT(text_of(found.unreadable, 20),
                ::testing::AllOf(::testing::HasSubstr("dog/0.JPG (not a regular file), "),
                                 ::testing::HasSubstr("cat/1.png (damage: "),
                                 ::testing::HasSubstr("dog/2.JPG (damage: "),
                                 ::testing::EndsWith("bird/4.JPG (an empty file)")));
    EXPECT_THAT(text_of(found.unreadable, 1),
                ::testing::EndsWith("dog/0.JPG (not a regular file), ..."));
    ASSERT_EQ(found.without_end.size(), 1U);
    EXPECT_EQ(found.without_end[0].number, 0);
  }
}

// In whichever thread: that is not a file's fault, which --skip-damaged would leave out.
TEST_F(ImageFolder, EndsTheCheckWhenOutOfMemory) {
  const auto source = open();
  is_memory_exhausted = true;
  for (const int threads : {1, 3})
    expect_error(ErrorKind::unavailable, {".png: there is not enough memory to decode it"},
                 [&] { decode_images(source->image_files(), threads); });
  is_memory_exhausted = false;
  EXPECT_TRUE(decode_images(source->image_files(), 3).unreadable.empty());
}

TEST_F(ImageFolder, ChecksFilesConcurrently) {
  const auto source = open();
  openings.delay = std::chrono::milliseconds(100);
  source->check();
  openings.delay = {};
  EXPECT_GE(openings.threads.size(), 4u);
}

TEST_F(ImageFolder, NamesMissingFiles) {
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
  fails_with(ErrorKind::data, {"test", "found 'doge', which is not one of them"}, DataSplit::test);
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
