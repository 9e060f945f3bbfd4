// Archives that need zip64: more entries, larger entries and larger files than a zip of 1989 holds.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <zlib.h>

#include <cstdlib>
#include <fstream>
#include <new>

#include "core/file.hpp"
#include "saving/npz.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tasuki {
namespace {

using testing::TemporaryFolder;

constexpr std::uint32_t in_zip64 = 0xffffffff;  // of a size or place: see the extra field

Tensor scalar(std::int64_t value) {
  return Tensor::from(std::span<const std::int64_t>(&value, 1), Shape{});
}

std::vector<NpzEntry> entries_of(std::int64_t count) {
  std::vector<NpzEntry> entries;
  for (std::int64_t i = 0; i < count; ++i) entries.push_back({std::to_string(i), scalar(i)});
  return entries;
}

// Zeros that take no memory until they are written to.
Tensor untouched_zeros(std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  const auto unmap = [](void* data, std::size_t size) { munmap(data, size); };
  return {std::make_shared<Storage>(pages, bytes, Device::cpu(), unmap), 0, Shape{count},
          DType::float32};
}

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// A stored entry whose sizes and place are in zip64's extra fields, as those of large ones are. All
// fields are as in PKWARE's APPNOTE, 4.3.
struct Entry {
  std::string name, data;
  std::uint64_t offset = 0;

  // What local and central headers share.
  std::string common_fields(std::uint16_t extra) const {
    std::string bytes;
    append<std::uint16_t>(bytes, 45);  // needs zip64
    append<std::uint16_t>(bytes, 0);
    append<std::uint16_t>(bytes, 0);           // stored
    append<std::uint32_t>(bytes, 0x00210000);  // 1980-01-01
    append(bytes, static_cast<std::uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(data.data()),
                                                   static_cast<uInt>(data.size()))));
    append(bytes, in_zip64);
    append(bytes, in_zip64);
    append(bytes, static_cast<std::uint16_t>(name.size()));
    append(bytes, extra);
    return bytes;
  }
  std::string local() const {
    std::string bytes = "PK\3\4" + common_fields(20) + name;
    append<std::uint16_t>(bytes, 1);
    append<std::uint16_t>(bytes, 16);
    append<std::uint64_t>(bytes, data.size());
    append<std::uint64_t>(bytes, data.size());
    return bytes + data;
  }
  std::string central() const {
    std::string bytes = "PK\1\2";
    append<std::uint16_t>(bytes, 45);
    bytes += common_fields(28);
    bytes.append(10, '\0');  // comment, disk, attributes
    append(bytes, in_zip64);
    bytes += name;
    append<std::uint16_t>(bytes, 1);
    append<std::uint16_t>(bytes, 24);
    append<std::uint64_t>(bytes, data.size());
    append<std::uint64_t>(bytes, data.size());
    append(bytes, offset);
    return bytes;
  }
};

// Entries, their directory, its zip64 end with the locator, and the end of old.
std::string zip64_file(std::vector<Entry> entries) {
  std::string bytes;
  for (Entry& entry : entries) {
    entry.offset = bytes.size();
    bytes += entry.local();
  }
  const std::uint64_t directory = bytes.size(), count = entries.size();
  for (const Entry& entry : entries) bytes += entry.central();
  const std::uint64_t end = bytes.size();
  bytes += "PK\6\6";
  append<std::uint64_t>(bytes, 44);
  append<std::uint16_t>(bytes, 45);
  append<std::uint16_t>(bytes, 45);
  append<std::uint64_t>(bytes, 0);
  append(bytes, count);
  append(bytes, count);
  append(bytes, end - directory);
  append(bytes, directory);
  bytes += "PK\6\7";
  append<std::uint32_t>(bytes, 0);
  append(bytes, end);
  append<std::uint32_t>(bytes, 1);
  bytes += "PK\5\6";
  append<std::uint32_t>(bytes, 0);
  append<std::uint16_t>(bytes, 0xffff);
  append<std::uint16_t>(bytes, 0xffff);
  append(bytes, in_zip64);
  append(bytes, in_zip64);
  append<std::uint16_t>(bytes, 0);
  return bytes;
}

std::string npy_file(const Tensor& values) {
  return npy_header(values) + std::string(static_cast<const char*>(values.raw()), values.bytes());
}

TEST(NpzZip64, SupportsMoreThan65535Entries) {
  const TemporaryFolder folder;
  constexpr std::int64_t count = 65'600;
  write_npz(folder / "many", entries_of(count));
  const NpzFile file(folder / "many", /*require_hash=*/true);
  EXPECT_EQ(file.names().size(), static_cast<std::size_t>(count));
  for (const std::int64_t i : {std::int64_t{0}, std::int64_t{65'535}, count - 1})
    EXPECT_EQ(std::get<Tensor>(file.read(std::to_string(i))).item(), static_cast<double>(i));
}

// As other programs write them, sizes of small arrays in 64 bits, too.
TEST(NpzZip64, Reads64BitSizesAndOffsets) {
  const TemporaryFolder folder;
  std::ofstream(folder / "made", std::ios::binary)
      << zip64_file({{"a.npy", npy_file(scalar(-5))}, {"b.npy", npy_file(scalar(7))}});
  const NpzFile file(folder / "made");
  EXPECT_EQ(file.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(std::get<Tensor>(file.read("a")).item(), -5);
  EXPECT_EQ(std::get<Tensor>(file.read("b")).item(), 7);
}

// What is written has zip64's end of the directory just when it needs it.
TEST(NpzZip64, IsWrittenOnlyWhenNeeded) {
  const TemporaryFolder folder;
  for (const std::int64_t count : {std::int64_t{65'535}, std::int64_t{65'536}}) {
    write_npz(folder / "file", entries_of(count));
    const std::string bytes = read_file(folder / "file");
    const std::string end = bytes.substr(bytes.size() - 200);
    EXPECT_EQ(end.find("PK\6\6") != std::string::npos, count > 65'535) << count;
  }
}

// The whole way: takes 4 GiB of disk and of memory, and some ten seconds.
TEST(NpzZip64, RoundTripsLargeArrays) {
  if (std::getenv("TASUKI_TEST_LARGE_FILES") == nullptr)
    GTEST_SKIP() << "writes 4 GiB and reads them into memory: set TASUKI_TEST_LARGE_FILES=1";
  const TemporaryFolder folder;
  constexpr std::int64_t count = (std::int64_t{1} << 30) + 1024;
  const Tensor large = untouched_zeros(count);
  large.data<float>()[0] = 1;
  large.data<float>()[count - 1] = 2;
  write_npz(folder / "large", {{"large", large}, {"small", scalar(7)}});
  const NpzFile file(folder / "large", /*require_hash=*/true);
  EXPECT_EQ(std::get<Tensor>(file.read("small")).item(), 7);
  const Tensor read = std::get<Tensor>(file.read("large"));
  ASSERT_EQ(read.shape(), large.shape());
  EXPECT_EQ(read.data<float>()[0], 1);
  EXPECT_EQ(read.data<float>()[count - 1], 2);
  EXPECT_EQ(read.data<float>()[count / 2], 0);
}

}  // namespace
}  // namespace tasuki
