#include "dataset/images/exif.hpp"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace tasuki {
namespace {

using ByteView = std::span<const std::byte>;

bool begins_with(ByteView bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

// Bytes beyond the end read as 0.
std::uint32_t read_number(ByteView bytes, std::size_t at, std::size_t count, bool is_little) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t place = at + (is_little ? count - 1 - i : i);
    number =
        number << 8 | (place < bytes.size() ? std::to_integer<std::uint32_t>(bytes[place]) : 0);
  }
  return number;
}

std::uint32_t big_endian(ByteView bytes, std::size_t at, std::size_t count) {
  return read_number(bytes, at, count, /*is_little=*/false);
}

// EXIF data contain a TIFF file, whose first directory has the orientation.
Orientation orientation_in_tiff(ByteView tiff) {
  const bool is_little = begins_with(tiff, {"II*\0", 4});
  if (!is_little && !begins_with(tiff, {"MM\0*", 4})) return {};
  const auto number = [&](std::size_t at, std::size_t count) {
    return read_number(tiff, at, count, is_little);
  };
  constexpr std::size_t entry_bytes = 12;
  constexpr std::uint32_t orientation_tag = 0x0112, type_short = 3, type_long = 4;
  const std::size_t directory = number(4, 4);
  const std::size_t entries = number(directory, 2);
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * entry_bytes;
    if (entry + entry_bytes > tiff.size()) return {};
    if (number(entry, 2) != orientation_tag) continue;
    const std::uint32_t type = number(entry + 2, 2);
    if (number(entry + 4, 4) != 1) return {};
    if (type == type_short) return orientation_of(number(entry + 8, 2));
    if (type == type_long) return orientation_of(number(entry + 8, 4));
    return {};
  }
  return {};
}

// Segments before the first scan: FF, a marker, and for most markers a length that counts itself.
Orientation orientation_in_jpeg(ByteView file) {
  constexpr std::string_view exif("Exif\0\0", 6);
  constexpr std::uint32_t app1 = 0xE1, start_of_scan = 0xDA, end_of_image = 0xD9;
  for (std::size_t at = 2; at + 4 <= file.size();) {
    if (big_endian(file, at, 1) != 0xFF) return {};
    const std::uint32_t marker = big_endian(file, at + 1, 1);
    if (marker == 0xFF) {  // padding
      ++at;
      continue;
    }
    if (marker == start_of_scan || marker == end_of_image) return {};
    const std::size_t length = big_endian(file, at + 2, 2);
    if (length < 2 || at + 2 + length > file.size()) return {};
    const ByteView contents = file.subspan(at + 4, length - 2);
    if (marker == app1 && begins_with(contents, exif))
      return orientation_in_tiff(contents.subspan(exif.size()));
    at += 2 + length;
  }
  return {};
}

std::uint32_t check_sum(ByteView bytes) {
  return static_cast<std::uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())));
}

// Chunks: length, name, contents, check sum of name and contents.
Orientation orientation_in_png(ByteView file) {
  constexpr std::size_t around = 12;
  for (std::size_t at = 8; at + around <= file.size();) {
    const std::size_t length = big_endian(file, at, 4);
    if (length > file.size() - at - around) return {};
    const ByteView chunk = file.subspan(at + 4, 4 + length);
    if (begins_with(chunk, "eXIf") && check_sum(chunk) == big_endian(file, at + 8 + length, 4))
      return orientation_in_tiff(chunk.subspan(4));
    at += around + length;
  }
  return {};
}

// The same part of an axis of `length` pixels, counted from its end.
ViewedAxis reversed(const ViewedAxis& axis, std::int64_t length) {
  const double end = axis.begin + static_cast<double>(axis.count) * axis.step;
  return {static_cast<double>(length) - end, axis.step, axis.count, length - axis.high,
          length - axis.low};
}

}  // namespace

Orientation orientation_of(std::uint32_t exif_number) {
  switch (exif_number) {
    case 2:
      return {.reverses_columns = true};
    case 3:
      return {.reverses_rows = true, .reverses_columns = true};
    case 4:
      return {.reverses_rows = true};
    case 5:
      return {.transposes = true};
    case 6:
      return {.reverses_rows = true, .transposes = true};
    case 7:
      return {.reverses_rows = true, .reverses_columns = true, .transposes = true};
    case 8:
      return {.reverses_columns = true, .transposes = true};
    default:
      return {};
  }
}

Orientation find_orientation(ByteView file) {
  if (begins_with(file, "\xFF\xD8\xFF")) return orientation_in_jpeg(file);
  if (begins_with(file, "\x89PNG\r\n\x1A\n")) return orientation_in_png(file);
  return {};
}

ImageView view_of_stored(const ImageView& shown, const Orientation& orientation,
                         std::int64_t height, std::int64_t width) {
  ImageView stored = shown;
  stored.is_mirrored = false;
  if (orientation.transposes) std::swap(stored.rows, stored.columns);
  if (orientation.reverses_rows) stored.rows = reversed(stored.rows, height);
  if (orientation.reverses_columns) stored.columns = reversed(stored.columns, width);
  return stored;
}

template <std::size_t pixel_bytes>
void turn(const std::uint8_t* from, std::int64_t height, std::int64_t width,
          const Orientation& orientation, std::uint8_t* to) {
  const std::int64_t rows = orientation.transposes ? width : height;
  const std::int64_t columns = orientation.transposes ? height : width;
  for (std::int64_t y = 0; y < rows; ++y)
    for (std::int64_t x = 0; x < columns; ++x, to += pixel_bytes) {
      std::int64_t row = orientation.transposes ? x : y, column = orientation.transposes ? y : x;
      if (orientation.reverses_rows) row = height - 1 - row;
      if (orientation.reverses_columns) column = width - 1 - column;
      std::memcpy(to, from + static_cast<std::size_t>(row * width + column) * pixel_bytes,
                  pixel_bytes);
    }
}

template void turn<3>(const std::uint8_t*, std::int64_t, std::int64_t, const Orientation&,
                      std::uint8_t*);
template void turn<4>(const std::uint8_t*, std::int64_t, std::int64_t, const Orientation&,
                      std::uint8_t*);

}  // namespace tasuki
