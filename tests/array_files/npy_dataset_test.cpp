// Data sets from NumPy's files, which make_arrays.py wrote.
#include "array_files/npy_dataset.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "array_files/zip_members.hpp"
#include "arrays.hpp"
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

void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(NpyDataset, ReadsFilesOfAFolder) {
  const auto data = open_npy(ARRAYS, {{"x", "x.npy"}, {"t", "t", true, 4}});
  EXPECT_EQ(data->size(), 4);
  EXPECT_EQ(data->header().field("x").shape, (Shape{3}));
  EXPECT_EQ(data->header().field("t").decoded, DType::int32);
  EXPECT_TRUE(data->header().field("t").is_target);
  EXPECT_NE(data->array(0).values, nullptr) << "it is not mapped";
  EXPECT_EQ(values_of(*data, "x", {3, 0, 0}), expected_rows({3, 0, 0}, 3, -0.5));
  EXPECT_EQ(values_of(*data, "t", all_of(*data)), (std::vector<double>{3, 1, 0, 2}));
}

TEST(NpyDataset, ReadsAllTypesOfAnNpzFile) {
  int found = 0;
  for (const std::string& name : testing::array_types) {
    std::shared_ptr<const Dataset> data;
    if (testing::error_of([&] {
          data = open_npy(array_file("types.npz"), {{"x", name}});
        }).find("has no array") != std::string::npos)
      continue;  // the file has every second type
    ASSERT_TRUE(data) << name;
    EXPECT_EQ(values_of(*data, "x", all_of(*data)), expected_of_type(name)) << name;
    ++found;
  }
  EXPECT_EQ(found, 11);
}

TEST(NpyDataset, UnpacksCompressedMembers) {
  const std::filesystem::path path = array_file("packed.npz");
  for (const char* const name : {"little_f4", "big_i2", "little_u1"}) {
    const auto data = open_npy(path, {{"x", name}});
    EXPECT_EQ(values_of(*data, "x", all_of(*data)), expected_of_type(name)) << name;
  }
  const std::string zip = contents_of(path);
  EXPECT_TRUE(stored_members(std::as_bytes(std::span(zip))).empty());
}

TEST(NpyDataset, MapsStoredMembers) {
  const std::string zip = contents_of(array_file("types.npz"));
  const auto members = stored_members(std::as_bytes(std::span(zip)));
  EXPECT_EQ(members.size(), 11u);
  for (const auto& [name, place] : members)
    EXPECT_EQ(zip.substr(place.begin, 6), "\x93NUMPY") << name;
  // What libzip refuses is not looked for, whatever is cut off.
  for (std::size_t bytes = 0; bytes < zip.size(); bytes += 3)
    stored_members(std::as_bytes(std::span(zip).first(bytes)));
}

TEST(NpyDataset, RefusesWrongFilesInOneLine) {
  const testing::TemporaryFolder folder;
  const auto refuse = [&](const std::filesystem::path& path, const ArrayFileField& field,
                          ErrorKind kind, const std::vector<std::string>& words) {
    expect_error(kind, words, [&] { open_npy(path, {field}); });
  };
  const std::filesystem::path arrays = ARRAYS;
  refuse(arrays, {"x", "fortran.npy"}, ErrorKind::data,
         {"fortran.npy is in Fortran order; save it with numpy.ascontiguousarray"});
  refuse(arrays, {"x", "complex.npy"}, ErrorKind::data, {"complex.npy: expected numbers", "<c8"});
  refuse(arrays, {"x", "nothing.npy"}, ErrorKind::missing, {"nothing.npy", "no such file"});
  refuse(arrays / "nothing", {"x", "x"}, ErrorKind::missing, {"nothing", "no such file"});
  refuse(arrays / "x.npy", {"x", "x"}, ErrorKind::data, {"x.npy", "Not a zip archive"});
  refuse(arrays / "types.npz", {"x", "other"}, ErrorKind::data,
         {"types.npz has no array 'other'; it has: little_b1"});
  expect_error(ErrorKind::data, {"field 't'", "five.npy: expected 4 examples", "found 5"}, [&] {
    open_npy(arrays, {{"x", "x"}, {"t", "five"}});
  });
  expect_error(ErrorKind::data, {"example 0 has label 3, expected 0 .. 2"}, [&] {
    values_of(*open_npy(arrays, {{"t", "t", true, 3}}), "t", {0});
  });
  // Cut off anywhere, and longer.
  const std::string whole = contents_of(arrays / "x.npy");
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += 5) {
    write_bytes(folder / "x.npy", whole.substr(0, bytes));
    refuse(folder.path(), {"x", "x"}, ErrorKind::data, {folder / "x.npy"});
  }
  write_bytes(folder / "x.npy", whole + "more");
  refuse(folder.path(), {"x", "x"}, ErrorKind::data,
         {"expected 48 bytes of elements for 4x3 float32, found 52"});
  // Impossible sizes.
  std::string huge = whole;
  huge.replace(huge.find("(4, 3), }"), 9, "(4,99999999,99999999)}");
  write_bytes(folder / "x.npy", huge);
  refuse(folder.path(), {"x", "x"}, ErrorKind::data, {"x.npy"});
}

TEST(NpyDataset, RefusesDamagedNpzFilesInOneLine) {
  const testing::TemporaryFolder folder;
  const std::string whole = contents_of(array_file("packed.npz"));
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    write_bytes(folder / "packed.npz", damaged);
    const auto error = testing::caught([&] {
      for (const char* const name : {"little_f4", "big_i2", "little_u1"}) {
        const auto data = open_npy(folder / "packed.npz", {{"x", name}});
        EXPECT_EQ(values_of(*data, "x", all_of(*data)), expected_of_type(name)) << at;
      }
    });
    if (!error) continue;  // times and the like, which do not matter
    ++refused;
    EXPECT_EQ(std::string(error->what()).find('\n'), std::string::npos) << error->what();
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()) / 2);
}

}  // namespace
}  // namespace tasuki
