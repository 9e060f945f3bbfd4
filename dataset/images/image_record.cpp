#include "tasuki/dataset/images/image_record.hpp"

#include <algorithm>
#include <string>

#include "tasuki/core/error.hpp"
#include "tasuki/dataset/images/image.hpp"

namespace tasuki {

void write_image_record(std::string_view name, std::string_view contents, FieldWriter& into) {
  into.resize(std::ssize(name) + 1 + std::ssize(contents));
  const auto bytes_of = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  auto to = std::ranges::copy(bytes_of(name), into.bytes().begin()).out;
  *to++ = std::byte{0};  // ends the name; file names do not contain it
  std::ranges::copy(bytes_of(contents), to);
}

ImageRecord read_image_record(std::span<const std::byte> record) {
  const auto end = std::ranges::find(record, std::byte{0});
  TASUKI_CHECK(end != record.end(), "an image's record of {} bytes has no name", record.size());
  const auto length = static_cast<std::size_t>(end - record.begin());
  return {std::string(reinterpret_cast<const char*>(record.data()), length),
          record.subspan(length + 1)};
}

void decode_image_record(std::span<const std::byte> record, std::int64_t side, std::byte* pixels) {
  const auto [name, file] = read_image_record(record);
  resize_and_crop(decode_image(file, name, side), side, reinterpret_cast<std::uint8_t*>(pixels));
}

}  // namespace tasuki
