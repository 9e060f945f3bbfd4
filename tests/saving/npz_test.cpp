// NPZ files: what is written comes back.
#include "saving/npz.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <atomic>
#include <cstring>
#include <numeric>
#include <thread>

#include "core/file.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::error_of;
using testing::expect_error;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

Tensor counting(const Shape& shape, DType dtype) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  std::iota(values.begin(), values.end(), 1.0F);
  return Tensor::from(std::span<const float>(values), shape).to(dtype);
}

void expect_equal(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.shape(), b.shape());
  ASSERT_EQ(a.dtype(), b.dtype());
  if (a.bytes() > 0) {
    EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0);
  }
}

TEST(Npz, RoundTripsAllTypesAndShapes) {
  const TemporaryFolder folder;
  std::vector<NpzEntry> entries;
  for (const DType dtype :
       {DType::float32, DType::float64, DType::float16, DType::int32, DType::int64, DType::uint8})
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{0}, Shape{3, 4}, Shape{2, 0, 5},
                               Shape{1, 2, 3, 1, 2, 2}})
      entries.push_back(
          {fmt::format("{}/{}", name_of(dtype), shape.text()), counting(shape, dtype)});
  entries.push_back({"text", std::string("[{\"main/loss\": 1.5}]")});
  entries.push_back({"empty text", std::string()});
  entries.push_back({"text of any bytes", std::string("grüße → 🙂 caf\xe9 \x80")});
  write_npz(folder / "all", entries);

  const NpzFile file(folder / "all", /*require_hash=*/true);
  std::vector<std::string> names;
  for (const NpzEntry& entry : entries) names.push_back(entry.name);
  EXPECT_EQ(file.names(), names);
  for (const NpzEntry& entry : entries) {
    SCOPED_TRACE(entry.name);
    const NpzValue read = file.read(entry.name);
    if (const auto* tensor = std::get_if<Tensor>(&entry.value))
      expect_equal(std::get<Tensor>(read), *tensor);
    else
      EXPECT_EQ(std::get<std::string>(read), std::get<std::string>(entry.value));
  }
  EXPECT_FALSE(file.find("absent"));
  EXPECT_THAT(error_of([&] { file.read("absent"); }), HasSubstr("has no entry absent"));
}

TEST(Npz, ReadsTheOldOrTheNewOfAFileThatIsReplacedMeanwhile) {
  const TemporaryFolder folder;
  const auto write = [&](std::int64_t elements) {
    write_npz(folder / "state", {{"x", counting({elements}, DType::uint8)}});
  };
  write(100'000);
  std::atomic<bool> has_ended = false;
  std::thread writer([&] {
    for (int i = 0; i < 200; ++i) write(100'000 + i % 2);
    has_ended = true;
  });
  while (!has_ended) {
    const std::string message = error_of([&] {
      const auto x = std::get<Tensor>(NpzFile(folder / "state", /*require_hash=*/true).read("x"));
      EXPECT_THAT(x.shape().count(), ::testing::AnyOf(100'000, 100'001));
    });
    EXPECT_EQ(message, "(nothing thrown)");
    if (::testing::Test::HasFailure()) break;
  }
  writer.join();
}

TEST(Npz, StoresBfloat16AsFloat32) {
  const TemporaryFolder folder;
  const Tensor values = counting(Shape{5}, DType::bfloat16);
  write_npz(folder / "b", {{"x", values}});
  expect_equal(std::get<Tensor>(NpzFile(folder / "b").read("x")), values.to(DType::float32));
}

TEST(Npz, WritesEqualFilesForEqualEntries) {
  const TemporaryFolder folder;
  write_npz(folder / "a", {{"x", counting(Shape{100}, DType::float32)}});
  write_npz(folder / "b", {{"x", counting(Shape{100}, DType::float32)}});
  EXPECT_EQ(read_file(folder / "a"), read_file(folder / "b"));
}

TEST(Npz, StoresEntriesUncompressedAndAligned) {
  const TemporaryFolder folder;
  const Tensor zeros = Tensor::zeros(Shape{10000});
  write_npz(folder / "zeros", {{"x", zeros}});
  EXPECT_GT(std::filesystem::file_size(folder / "zeros"), zeros.bytes());
  for (const Shape& shape : {Shape{}, Shape{123456}, Shape{1, 22, 333, 4444, 55555, 6}}) {
    const std::string header = npy_header(Tensor::empty(shape.count() > 200000 ? Shape{1} : shape));
    EXPECT_EQ(header.size() % 64, 0U) << shape.text();
    EXPECT_EQ(header.back(), '\n');
  }
}

TEST(Npz, NamesUnwritableEntries) {
  const TemporaryFolder folder;
  const Tensor x = Tensor::zeros(Shape{3});
  EXPECT_THAT(error_of([&] { write_npz(folder / "none", {}); }), HasSubstr("no array to write"));
  EXPECT_THAT(error_of([&] {
                write_npz(folder / "twice", {{"x", x}, {"x", x}});
              }),
              HasSubstr("x is twice among the arrays to write to"));
  EXPECT_THAT(error_of([&] {
                write_npz(folder / "no/such/folder", {{"x", x}});
              }),
              HasSubstr("cannot write"));
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// Files of other writers.
class ForeignNpz : public ::testing::Test {
 protected:
  void write(const std::string& entry, const std::string& contents, bool deflate) {
    zip_t* archive = zip_open((folder / "foreign").c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    ASSERT_NE(archive, nullptr);
    zip_source_t* source = zip_source_buffer(archive, contents.data(), contents.size(), 0);
    const auto index = static_cast<zip_uint64_t>(zip_file_add(archive, entry.c_str(), source, 0));
    zip_set_file_compression(archive, index, deflate ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    ASSERT_EQ(zip_close(archive), 0);
  }
  std::string array(const std::string& dict, const std::string& data, char version = 1) {
    std::string bytes = std::string("\x93NUMPY", 6) + version + '\0';
    bytes += static_cast<char>(dict.size() & 0xff);
    bytes += static_cast<char>(dict.size() >> 8);
    if (version > 1) bytes += std::string(2, '\0');
    return bytes + dict + data;
  }
  std::string refusal(const std::string& dict, const std::string& data, char version = 1) {
    write("x.npy", array(dict, data, version), false);
    return error_of([&] { NpzFile(folder / "foreign").read("x"); });
  }

  TemporaryFolder folder;
};

TEST_F(ForeignNpz, AcceptsDeflatedEntriesAndOtherHeaderVersions) {
  const std::vector<float> values(1000, 2.5F);
  const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  for (const char version : {1, 2, 3}) {
    write("x.npy",
          array("{\"shape\": (10, 100,), 'fortran_order': False, 'descr': '<f4'}\n", data, version),
          true);
    ASSERT_LT(std::filesystem::file_size(folder / "foreign"), 1000U);
    const NpzFile file(folder / "foreign");
    const Tensor x = std::get<Tensor>(file.read("x"));
    EXPECT_EQ(x.shape(), (Shape{10, 100}));
    EXPECT_EQ(x.data<float>()[999], 2.5F);
    EXPECT_THAT(error_of([&] { const NpzFile strict(folder / "foreign", true); }),
                HasSubstr("does not end in a hash"));
  }
}

TEST_F(ForeignNpz, NamesUnreadableEntries) {
  const std::string eight(8, '\0');
  EXPECT_THAT(refusal("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }\n", eight),
              HasSubstr("NumPy's type \">f4\""));
  EXPECT_THAT(refusal("{'descr': '<f4\n\n', 'fortran_order': False, 'shape': (2,), }\n", eight),
              HasSubstr("NumPy's type \"<f4??\""));
  EXPECT_THAT(refusal("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 1), }\n", eight),
              HasSubstr("Fortran order"));
  EXPECT_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", eight),
              HasSubstr("x in"));
  EXPECT_THAT(refusal("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", eight, 9),
              HasSubstr("version 9"));
  for (const char* dict :
       {"", "{", "{}", "{'descr'", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,2), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"})
    EXPECT_THAT(refusal(dict, eight), HasSubstr("x in")) << dict;
}

// What Chainer writes for None, bytes, other numbers, and other orders may stand beside what is
// needed.
TEST_F(ForeignNpz, FindsUnreadableArrays) {
  for (const char* type :
       {"'|O'", "'|S3'", "'<i2'", "'>f4'", "'<c8'", "[('a', '<f4'), ('b', '|S1')]"}) {
    write("x.npy",
          array(fmt::format("{{'descr': {}, 'fortran_order': False, 'shape': (2,), }}\n", type),
                "abc"),
          false);
    const NpzFile file(folder / "foreign");
    EXPECT_EQ(file.names(), std::vector<std::string>{"x"});
    const auto found = file.find("x");
    ASSERT_TRUE(found);
    EXPECT_EQ(found->shape, Shape{2});
    EXPECT_FALSE(found->dtype);
    EXPECT_THAT(found->unreadable, HasSubstr("NumPy's type"));
    expect_error(ErrorKind::data, {"x in ", found->unreadable}, [&] { file.read("x"); });
  }
}

TEST_F(ForeignNpz, IgnoresOtherEntriesAndRejectsOtherFiles) {
  write("readme.txt", "hello", false);
  EXPECT_TRUE(NpzFile(folder / "foreign").names().empty());
  EXPECT_THAT(error_of([&] { const NpzFile file(folder / "nowhere"); }), HasSubstr("no such file"));
  EXPECT_THAT(error_of([&] { const NpzFile file(folder.path()); }), HasSubstr("not a file"));
  write_file(folder / "text", "no zip at all");
  EXPECT_THAT(error_of([&] { const NpzFile file(folder / "text"); }), HasSubstr("text"));
}

}  // namespace
}  // namespace tasuki
