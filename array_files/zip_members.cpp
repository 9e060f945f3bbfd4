#include "array_files/zip_members.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

namespace tasuki {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t local_magic = 0x04034b50, central_magic = 0x02014b50;
constexpr std::uint32_t end_magic = 0x06054b50, end64_magic = 0x06064b50;
constexpr std::uint32_t locator_magic = 0x07064b50;
constexpr std::uint32_t in_zip64 = 0xffffffff;
constexpr std::size_t local_bytes = 30, central_bytes = 46, end_bytes = 22, end64_bytes = 56;
constexpr std::size_t locator_bytes = 20;

// A number at an offset; the caller has checked that it is inside.
template <class T>
T number(Bytes bytes, std::size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

bool has(Bytes zip, std::uint64_t at, std::uint64_t bytes) {
  return at <= zip.size() && bytes <= zip.size() - at;
}

bool has_record(Bytes zip, std::uint64_t at, std::size_t bytes, std::uint32_t magic) {
  return has(zip, at, bytes) && number<std::uint32_t>(zip, at) == magic;
}

// The end record, whose comment reaches to the end of the file.
std::optional<std::size_t> find_end(Bytes zip) {
  if (zip.size() < end_bytes) return std::nullopt;
  const std::size_t last = zip.size() - end_bytes;
  for (std::size_t comment = 0; comment <= std::min<std::size_t>(last, 0xffff); ++comment)
    if (has_record(zip, last - comment, end_bytes, end_magic) &&
        number<std::uint16_t>(zip, last - comment + 20) == comment)
      return last - comment;
  return std::nullopt;
}

struct Directory {
  std::uint64_t begin, members;
};

std::optional<Directory> find_directory(Bytes zip) {
  const std::optional<std::size_t> end = find_end(zip);
  if (!end) return std::nullopt;
  const Directory plain{number<std::uint32_t>(zip, *end + 16),
                        number<std::uint16_t>(zip, *end + 10)};
  if (*end < locator_bytes || !has_record(zip, *end - locator_bytes, locator_bytes, locator_magic))
    return plain;
  const auto at = number<std::uint64_t>(zip, *end - locator_bytes + 8);
  if (!has_record(zip, at, end64_bytes, end64_magic)) return std::nullopt;
  return Directory{number<std::uint64_t>(zip, at + 48), number<std::uint64_t>(zip, at + 32)};
}

// The numbers of a central header that stand in its ZIP64 field if they have no room, in this
// order.
struct Numbers {
  std::uint64_t bytes, packed, begin;
};

bool take_zip64(Bytes extra, Numbers& numbers) {
  std::uint64_t* const wanted[] = {&numbers.bytes, &numbers.packed, &numbers.begin};
  const auto is_elsewhere = [](const std::uint64_t* value) { return *value == in_zip64; };
  if (std::ranges::none_of(wanted, is_elsewhere)) return true;
  while (extra.size() >= 4) {
    const std::size_t size = number<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) return false;
    Bytes field = extra.subspan(4, size);
    if (number<std::uint16_t>(extra, 0) == 1) {
      for (std::uint64_t* const value : wanted) {
        if (!is_elsewhere(value)) continue;
        if (field.size() < 8) return false;
        *value = number<std::uint64_t>(field, 0);
        field = field.subspan(8);
      }
      return true;
    }
    extra = extra.subspan(4 + size);
  }
  return false;
}

// The contents of a member whose local header is at `begin`.
std::optional<StoredMember> contents_of(Bytes zip, const Numbers& numbers, std::string_view name) {
  if (!has_record(zip, numbers.begin, local_bytes, local_magic)) return std::nullopt;
  const std::size_t name_bytes = number<std::uint16_t>(zip, numbers.begin + 26);
  const std::size_t extra_bytes = number<std::uint16_t>(zip, numbers.begin + 28);
  const std::uint64_t begin = numbers.begin + local_bytes + name_bytes + extra_bytes;
  if (!has(zip, begin, numbers.bytes) || name_bytes != name.size() ||
      std::memcmp(zip.data() + numbers.begin + local_bytes, name.data(), name_bytes) != 0)
    return std::nullopt;
  return StoredMember{begin, numbers.bytes};
}

}  // namespace

std::map<std::string, StoredMember> stored_members(Bytes zip) {
  std::map<std::string, StoredMember> members;
  const std::optional<Directory> directory = find_directory(zip);
  if (!directory) return members;
  std::uint64_t at = directory->begin;
  for (std::uint64_t i = 0; i < directory->members; ++i) {
    if (!has_record(zip, at, central_bytes, central_magic)) return {};
    const auto flags = number<std::uint16_t>(zip, at + 8),
               method = number<std::uint16_t>(zip, at + 10);
    Numbers numbers{number<std::uint32_t>(zip, at + 24), number<std::uint32_t>(zip, at + 20),
                    number<std::uint32_t>(zip, at + 42)};
    const std::size_t name_bytes = number<std::uint16_t>(zip, at + 28);
    const std::size_t extra_bytes = number<std::uint16_t>(zip, at + 30);
    const std::size_t comment_bytes = number<std::uint16_t>(zip, at + 32);
    const std::uint64_t after = at + central_bytes;
    if (!has(zip, after, name_bytes + extra_bytes + comment_bytes)) return {};
    const std::string name(reinterpret_cast<const char*>(zip.data() + after), name_bytes);
    at = after + name_bytes + extra_bytes + comment_bytes;
    constexpr std::uint16_t is_encrypted = 1, is_stored = 0;
    if (method != is_stored || (flags & is_encrypted) != 0 ||
        !take_zip64(zip.subspan(after + name_bytes, extra_bytes), numbers) ||
        numbers.packed != numbers.bytes)
      continue;
    if (const auto found = contents_of(zip, numbers, name)) members.emplace(name, *found);
  }
  return members;
}

}  // namespace tasuki
