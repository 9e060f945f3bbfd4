#include "training/snapshots/zip_writer.hpp"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/activity.hpp"
#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/own_file.hpp"
#include "core/system_error.hpp"
#include "core/temporary_name.hpp"

namespace tasuki {
namespace {

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

}  // namespace

ZipWriter::ZipWriter(std::filesystem::path path, std::uint64_t bytes)
    : path_(std::move(path)), bytes_(bytes), file_(open_own_file(path_, OwnFile::make)) {}

void ZipWriter::fail_to_write() const {
  const std::error_code cause = last_system_error();
  std::string room;
  std::error_code error;
  if (cause == std::errc::no_space_on_device && bytes_ > 0) {
    // What the file has already is free for it, too.
    const auto disk = std::filesystem::space(path_, error);
    const std::uintmax_t has = error ? 0 : std::filesystem::file_size(path_, error);
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

std::uint64_t ZipWriter::bytes_around(const std::vector<std::string>& names,
                                      std::string_view label) {
  constexpr std::uint64_t local_header = 30, central_header = 46, end = 22, digits = 16;
  std::uint64_t bytes = end + label.size() + digits;
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

ZipWriter::Result ZipWriter::finish(std::string_view label) {
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
  constexpr std::size_t digits = 16;
  last += "PK\5\6";
  append(last, no_disk);
  append(last, no_disk);
  append(last, short_count);
  append(last, short_count);
  append(last, in_32_bits(end - directory));
  append(last, in_32_bits(directory));
  append(last, static_cast<std::uint16_t>(label.size() + digits));
  put(last);
  put(label);
  const std::uint64_t hash = hash_.value();
  put(hash_digits(hash));
  flush();
  if (::close(file_.release()) != 0) fail_to_write();
  return {offset_, hash};
}

}  // namespace tasuki
