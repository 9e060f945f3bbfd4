// Writing of NPZ files; declared in npz.hpp.
#include <fmt/format.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <set>
#include <system_error>
#include <utility>

#include "core/activity.hpp"
#include "core/descriptor.hpp"
#include "core/error.hpp"
#include "core/file.hpp"
#include "core/hash.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "core/temporary_name.hpp"
#include "saving/npz.hpp"

namespace tasuki {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "zip files are little-endian");

constexpr std::uint32_t in_zip64 = 0xffffffff;   // in place of a size: see the extra field
constexpr std::uint64_t largest_count = 0xffff;  // of entries, and of a name's bytes
constexpr std::uint16_t zip64_field = 1;
constexpr std::uint16_t version_of_zip = 20, version_of_zip64 = 45;
constexpr std::size_t piece_bytes = std::size_t{1} << 18;  // fits into caches

template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

bool fits(std::uint64_t value) {
  return value < in_zip64;
}

std::uint32_t in_32_bits(std::uint64_t value) {
  return fits(value) ? static_cast<std::uint32_t>(value) : in_zip64;
}

// What local and central headers share. Both say the same version, which the larger of an entry's
// size and place decides.
void append_fields(std::string& header, const std::string& name, std::uint32_t crc,
                   std::uint64_t bytes, bool is_zip64, std::size_t extra) {
  constexpr std::uint16_t names_are_utf8 = 0x800, stored = 0, midnight = 0;
  constexpr std::uint16_t earliest_day = 0x21;  // 1980-01-01
  append(header, is_zip64 ? version_of_zip64 : version_of_zip);
  append(header, names_are_utf8);
  append(header, stored);
  append(header, midnight);
  append(header, earliest_day);
  append(header, crc);
  append(header, in_32_bits(bytes));
  append(header, in_32_bits(bytes));
  append(header, static_cast<std::uint16_t>(name.size()));
  append(header, static_cast<std::uint16_t>(extra));
}

// The zip64 field of a header; empty if nothing needs it.
std::string zip64_extra(const std::vector<std::uint64_t>& values) {
  std::string extra;
  if (values.empty()) return extra;
  append(extra, zip64_field);
  append(extra, static_cast<std::uint16_t>(values.size() * sizeof(std::uint64_t)));
  for (const std::uint64_t value : values) append(extra, value);
  return extra;
}

// For each piece of `bytes` in turn.
template <class Work>
void in_pieces(std::span<const std::byte> bytes, const Work& work) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), piece_bytes));
    work(piece);
    bytes = bytes.subspan(piece.size());
    report_progress();
  }
}

// ZipWriter: writes a zip file of stored (uncompressed) entries from front to back.
//
// All bytes pass once, in their final order, so the hash of the file is known without reading it
// again. (libzip, which reads the files, goes back to each entry's header after its contents.)
// Format: PKWARE's APPNOTE 6.3; entries, sizes and places that need it are in zip64. No time is
// stored: equal entries make equal files.
//
// Errors are of kind cannot_write and name the file and the cause. A file that is not finished is
// no zip file; the caller removes it.
class ZipWriter {
 public:
  // Makes the file, which must not exist. `bytes`: its size, which errors of a full disk state.
  ZipWriter(fs::path path, std::uint64_t bytes);

  // The bytes that a file has besides the contents of such entries, a hash at its end included;
  // without zip64, which adds a few to files of 4 GB and more.
  static std::uint64_t bytes_around(const std::vector<std::string>& names);

  // An entry whose contents are `header` and then `data`. Returns their XXH3. Names are different.
  std::uint64_t add(const std::string& name, std::span<const std::byte> header,
                    std::span<const std::byte> data);

  // What a file became.
  struct Result {
    std::uint64_t bytes;
    std::uint64_t hash;  // FileHash of all but the last 16 bytes
  };
  // Writes the directory and ends the file in a comment: npz_hash_label and the hash of all bytes
  // before. Closes the file; does not sync it.
  Result finish();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc;
    std::uint64_t bytes, offset;
  };
  void put(std::span<const std::byte> bytes);
  void put(std::string_view bytes) { put(std::as_bytes(std::span(bytes))); }
  void flush();
  void write_all(std::span<const std::byte> bytes);
  [[noreturn]] void fail_to_write() const;

  fs::path path_;
  std::uint64_t bytes_;
  Descriptor file_;
  std::vector<std::byte> waiting_;  // to be written together
  std::uint64_t offset_ = 0;
  FileHash hash_;
  std::vector<Entry> entries_;
};

ZipWriter::ZipWriter(fs::path path, std::uint64_t bytes)
    : path_(std::move(path)), bytes_(bytes), file_(open_own_file(path_, OwnFile::make)) {}

void ZipWriter::fail_to_write() const {
  const std::error_code cause = last_system_error();
  std::string room;
  std::error_code error;
  if (cause == std::errc::no_space_on_device && bytes_ > 0) {
    // What the file has already is free for it, too.
    const auto disk = fs::space(path_, error);
    const std::uintmax_t has = error ? 0 : fs::file_size(path_, error);
    if (!error)
      room = fmt::format("; it needs {} bytes, and {} are free", bytes_, disk.available + has);
  }
  throw SystemError(
      ErrorKind::cannot_write, cause,
      fmt::format("cannot write {}: {}{}", final_path(path_).string(), cause.message(), room));
}

void ZipWriter::write_all(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_to_write();
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void ZipWriter::flush() {
  write_all(waiting_);
  waiting_.clear();
}

void ZipWriter::put(std::span<const std::byte> bytes) {
  hash_.add(bytes);
  offset_ += bytes.size();
  if (waiting_.size() + bytes.size() > piece_bytes) flush();
  if (bytes.size() >= piece_bytes)
    write_all(bytes);
  else
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
}

std::uint64_t ZipWriter::bytes_around(const std::vector<std::string>& names) {
  constexpr std::uint64_t local_header = 30, central_header = 46, end = 22;
  std::uint64_t bytes = end + npz_hash_label.size() + npz_hash_digits;
  for (const std::string& name : names) bytes += local_header + central_header + 2 * name.size();
  return bytes;
}

std::uint64_t ZipWriter::add(const std::string& name, std::span<const std::byte> header,
                             std::span<const std::byte> data) {
  TASUKI_CHECK(name.size() <= largest_count, "the name of an entry has {} bytes", name.size());
  RunningHash hash;
  uLong crc = crc32_z(0, nullptr, 0);
  for (const auto& part : {header, data})
    in_pieces(part, [&](std::span<const std::byte> piece) {
      hash.add(piece);
      crc = crc32_z(crc, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
    });
  const Entry entry{name, static_cast<std::uint32_t>(crc), header.size() + data.size(), offset_};
  entries_.push_back(entry);

  // A local header has both sizes in zip64, or none.
  const std::string extra = fits(entry.bytes) ? "" : zip64_extra({entry.bytes, entry.bytes});
  std::string local = "PK\3\4";
  append_fields(local, name, entry.crc, entry.bytes, !fits(entry.bytes) || !fits(entry.offset),
                extra.size());
  for (const std::string& part : {local, name, extra}) put(part);
  for (const auto& part : {header, data})
    in_pieces(part, [&](std::span<const std::byte> piece) { put(piece); });
  return hash.value();
}

ZipWriter::Result ZipWriter::finish() {
  constexpr std::uint16_t made_on_unix = 3 << 8, no_disk = 0, no_comment = 0, text_or_not = 0;
  constexpr std::uint32_t plain_file = 0100644U << 16;
  const std::uint64_t directory = offset_, count = entries_.size();
  for (const Entry& entry : entries_) {
    std::vector<std::uint64_t> large;
    if (!fits(entry.bytes)) large = {entry.bytes, entry.bytes};
    if (!fits(entry.offset)) large.push_back(entry.offset);
    const std::string extra = zip64_extra(large);
    std::string central = "PK\1\2";
    append(central, static_cast<std::uint16_t>(made_on_unix | version_of_zip64));
    append_fields(central, entry.name, entry.crc, entry.bytes, !large.empty(), extra.size());
    append(central, no_comment);
    append(central, no_disk);
    append(central, text_or_not);
    append(central, plain_file);
    append(central, in_32_bits(entry.offset));
    for (const std::string& part : {central, entry.name, extra}) put(part);
  }
  const std::uint64_t end = offset_;
  std::string last;
  if (count > largest_count || !fits(end)) {
    constexpr std::uint64_t bytes_that_follow = 44;
    constexpr std::uint32_t first_disk = 0, disks = 1;
    last += "PK\6\6";
    append(last, bytes_that_follow);
    append(last, static_cast<std::uint16_t>(made_on_unix | version_of_zip64));
    append(last, version_of_zip64);
    append(last, first_disk);
    append(last, first_disk);
    append(last, count);
    append(last, count);
    append(last, end - directory);
    append(last, directory);
    last += "PK\6\7";
    append(last, first_disk);
    append(last, end);
    append(last, disks);
  }
  const auto short_count = static_cast<std::uint16_t>(std::min(count, largest_count));
  last += "PK\5\6";
  append(last, no_disk);
  append(last, no_disk);
  append(last, short_count);
  append(last, short_count);
  append(last, in_32_bits(end - directory));
  append(last, in_32_bits(directory));
  append(last, static_cast<std::uint16_t>(npz_hash_label.size() + npz_hash_digits));
  put(last);
  put(npz_hash_label);
  const std::uint64_t hash = hash_.value();
  put(hash_digits(hash));
  flush();
  if (::close(file_.release()) != 0) fail_to_write();
  return {offset_, hash};
}

std::uint64_t bytes_of_file(const fs::path& path, const std::vector<NpzEntry>& entries) {
  std::uint64_t bytes = 0;
  std::vector<std::string> names;
  for (const NpzEntry& entry : entries) {
    const std::string header = npy_header(entry.value);
    bytes += header.size() +
             parse_npy_header(std::as_bytes(std::span(header)), path.string()).data_bytes();
    names.push_back(entry.name + ".npy");
  }
  return bytes + ZipWriter::bytes_around(names);
}

}  // namespace

WrittenNpz write_npz_directly(const fs::path& path, const std::vector<NpzEntry>& entries) {
  TASUKI_CHECK(!entries.empty(), "no array to write to {}", path.string());
  WrittenNpz written;
  std::set<std::string_view> names;
  ZipWriter file(path, bytes_of_file(path, entries));
  for (const NpzEntry& entry : entries) {
    TASUKI_CHECK(names.insert(entry.name).second, "{} is twice among the arrays to write to {}",
                 entry.name, path.string());
    const std::string header = npy_header(entry.value);
    const Tensor elements = npy_elements(entry.value);
    const auto* const data = static_cast<const std::byte*>(elements.raw());
    written.entries.push_back(
        file.add(entry.name + ".npy", std::as_bytes(std::span(header)), {data, elements.bytes()}));
  }
  const ZipWriter::Result result = file.finish();
  written.bytes = result.bytes;
  written.hash = result.hash;
  return written;
}

void write_npz(const fs::path& path, const std::vector<NpzEntry>& entries) {
  replace_file(path, [&](const fs::path& temporary) { write_npz_directly(temporary, entries); });
}

}  // namespace tasuki
