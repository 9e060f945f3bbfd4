// Data sets from HDF5 files, which make_arrays.py wrote. The test's program has functions of HDF5's
// names of its own (other_hdf5.cpp).
#include "array_files/hdf5_dataset.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "arrays.hpp"
#include "dataset/views.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::all_of;
using testing::array_file;
using testing::contents_of;
using testing::expect_error;
using testing::expected_of_type;
using testing::expected_rows;
using testing::values_of;

// The files, unpacked.
class Hdf5Dataset : public ::testing::Test {
 protected:
  void SetUp() override {
#ifndef TASUKI_HAS_HDF5
    GTEST_SKIP() << "this build has no HDF5 (libhdf5-dev)";
#endif
    for (const char* const name : {"types.h5", "layouts.h5", "old.h5", "userblock.h5"})
      write(name, contents_of(array_file(std::string(name) + ".gz")));
  }
  void write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  std::shared_ptr<const Dataset> open(const std::string& file, const std::string& name) {
    return open_hdf5(folder_ / file, {{"x", name}});
  }
  void refuse(const std::string& file, const std::string& name,
              const std::vector<std::string>& words) {
    expect_error(ErrorKind::data, words, [&] { open(file, name); });
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Hdf5Dataset, ReadsAllTypes) {
  for (const std::string& name : testing::array_types) {
    const auto data = open("types.h5", "/" + name);
    EXPECT_EQ(values_of(*data, "x", all_of(*data)), expected_of_type(name)) << name;
  }
}

TEST_F(Hdf5Dataset, ReadsAllLayouts) {
  const std::vector<std::int64_t> order = {19, 3, 3, 0, 18, 7, 2, 11, 6};
  for (const auto& [file, names] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"layouts.h5",
            {"/run/contiguous", "run/contiguous", "chunked", "split", "gzip", "split_gzip"}},
           {"old.h5", {"gzip", "contiguous"}},
           {"userblock.h5", {"contiguous", "chunked"}}})
    for (const std::string& name : names) {
      const auto data = open(file, name);
      ASSERT_EQ(data->size(), 20) << name;
      EXPECT_EQ(values_of(*data, "x", all_of(*data)), expected_rows(all_of(*data), 6)) << name;
      EXPECT_EQ(values_of(*data, "x", order), expected_rows(order, 6)) << name;
      const auto part = subset_of(data, {5, 17, 4});
      EXPECT_EQ(values_of(*part, "x", {2, 0}), expected_rows({4, 5}, 6)) << name;
    }
}

TEST_F(Hdf5Dataset, MapsWhatIsOnePiece) {
  const auto data = open("types.h5", "little_f4");
  EXPECT_NE(data->array(0).values, nullptr);
  EXPECT_EQ(open("layouts.h5", "gzip")->array(0).values, nullptr);
  // Neighbours in a chunk lie side by side.
  const auto chunked = open_hdf5(folder_ / "userblock.h5", {{"x", "chunked"}});
  EXPECT_EQ(chunked->locate(std::vector<std::int64_t>{3, 4}, 0).places.size(), 2u);
}

TEST_F(Hdf5Dataset, FillsInWhatWasNeverWritten) {
  const auto partly = open("layouts.h5", "partly");
  std::vector<double> expected = expected_rows({8}, 6);
  expected.insert(expected.end(), 6, -3);
  EXPECT_EQ(values_of(*partly, "x", {8, 9}), expected);
  EXPECT_EQ(values_of(*open("layouts.h5", "unwritten"), "x", {19}), std::vector<double>(6, 5));
}

// Bytes that this process has read by system calls.
std::int64_t bytes_read() {
  std::ifstream file("/proc/self/io");
  std::string name;
  std::int64_t bytes = -1;
  file >> name >> bytes;
  return name == "rchar:" ? bytes : -1;
}

// Its compressed bytes are read once, whatever part of it is wanted next.
TEST_F(Hdf5Dataset, UnpacksAChunkOnceWhateverItsSize) {
  const std::string whole = contents_of(array_file("large_chunk.h5.gz"));
  write("large_chunk.h5", whole);
  const auto data = open_hdf5(folder_ / "large_chunk.h5", {{.name = "x", .array = "x"}});
  const std::int64_t before = bytes_read();
  if (before < 0) GTEST_SKIP() << "/proc/self/io is not there";
  for (const std::int64_t row : {500, 20'500, 65'500, 40'500}) {
    const BatchField read = read_field(*data, 0, std::vector{row});
    const std::int64_t value = row / 1000;
    EXPECT_EQ(read.values.data<float>()[4095], static_cast<float>(value) / 255.0F);
  }
  EXPECT_LT(bytes_read() - before, 2 * std::ssize(whole));
}

TEST_F(Hdf5Dataset, FollowsLinksToOtherFiles) {
  for (const char* const name : {"elsewhere", "virtual"}) {
    const auto data = open("layouts.h5", name);
    EXPECT_EQ(values_of(*data, "x", all_of(*data)), expected_of_type("little_i2")) << name;
  }
}

TEST_F(Hdf5Dataset, ReadsLabels) {
  const auto data = open_hdf5(folder_ / "layouts.h5", {{"x", "gzip"}, {"t", "labels", true, 4}});
  EXPECT_EQ(data->header().field("t").decoded, DType::int32);
  EXPECT_EQ(values_of(*data, "t", {1, 4, 7}), (std::vector<double>{1, 0, 3}));
  const auto fewer = open_hdf5(folder_ / "layouts.h5", {{"t", "labels", true, 3}});
  expect_error(ErrorKind::data, {"example 3 has label 3, expected 0 .. 2"},
               [&] { values_of(*fewer, "t", {3}); });
}

TEST_F(Hdf5Dataset, RefusesWhatIsNotThereInOneLine) {
  const std::string place = folder_ / "layouts.h5";
  refuse("layouts.h5", "nothing", {"nothing in " + place, "cannot open it", "doesn't exist"});
  refuse("layouts.h5", "run", {"run in " + place, "cannot open it"});
  refuse("layouts.h5", "texts", {"texts in " + place, "expected numbers, found texts"});
  refuse("layouts.h5", "pairs", {"expected numbers, found a compound type"});
  refuse("layouts.h5", "scalar", {"field 'x'", "axis 0 numbers the examples"});
  write("vast_chunk.h5", contents_of(array_file("vast_chunk.h5.gz")));
  refuse("vast_chunk.h5", "x", {"its chunks have 1073741824 bytes", "the whole array has 64;"});
  write("text.h5", "this is no HDF5");
  refuse("text.h5", "x", {folder_ / "text.h5", "cannot open it as HDF5"});
  write("empty.h5", "");
  refuse("empty.h5", "x", {folder_ / "empty.h5", "cannot open it as HDF5"});
  expect_error(ErrorKind::missing, {"none.h5", "no such file"}, [&] { open("none.h5", "x"); });
  expect_error(ErrorKind::data, {"field 't'", "expected 20 examples, as many as in gzip in"}, [&] {
    open_hdf5(folder_ / "layouts.h5", {{"x", "gzip"}, {"t", "elsewhere"}});
  });
}

// Without the file's end, the file or the array is refused, or all values are there.
TEST_F(Hdf5Dataset, RefusesCutFilesInOneLine) {
  for (const char* const file : {"old.h5", "types.h5"}) {
    const std::string whole = contents_of(array_file(std::string(file) + ".gz"));
    for (std::size_t bytes = 0; bytes < whole.size(); bytes += 97) {
      write("cut.h5", whole.substr(0, bytes));
      const auto error = testing::caught([&] { open("cut.h5", "contiguous"); });
      ASSERT_TRUE(error) << bytes;
      EXPECT_EQ(std::string(error->what()).find('\n'), std::string::npos);
    }
  }
}

// gzip's checksum finds them.
TEST_F(Hdf5Dataset, RefusesDamagedChunksInOneLine) {
  std::string bytes = contents_of(array_file("layouts.h5.gz"));
  // The first chunk of "gzip" and all others begin with zlib's two bytes.
  int damaged = 0;
  for (std::size_t at = bytes.find("\x78\x5e"); at != std::string::npos;
       at = bytes.find("\x78\x5e", at + 2), ++damaged)
    bytes[at + 6] = static_cast<char>(bytes[at + 6] ^ 0x5a);
  ASSERT_GT(damaged, 5);
  write("damaged.h5", bytes);
  const auto data = open("damaged.h5", "gzip");
  const std::string what = "gzip in " + std::string(folder_ / "damaged.h5");
  expect_error(ErrorKind::data, {"example 0: " + what, "cannot read its values"},
               [&] { values_of(*data, "x", all_of(*data)); });
  expect_error(ErrorKind::data, {"example 17: " + what}, [&] {
    values_of(*subset_of(data, {5, 17}), "x", {1});
  });
}

TEST_F(Hdf5Dataset, IsReadBySeveralThreads) {
  const auto gzip = open("layouts.h5", "gzip"), split = open("layouts.h5", "split_gzip"),
             chunked = open("layouts.h5", "chunked");
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (std::int64_t i = 0; i < 200; ++i) {
        const std::vector<std::int64_t> rows = {(i * 7 + thread) % 20, (i + 5 * thread) % 20};
        for (const auto& data : {gzip, split, chunked})
          if (values_of(*data, "x", rows) != expected_rows(rows, 6)) ++wrong;
        if (i % 20 == 0 && !open("types.h5", "big_f8")) ++wrong;  // files open and close meanwhile
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace tasuki
