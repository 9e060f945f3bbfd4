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

void decode_image_record(std::span<const std::byte> record, std::int64_t side, std::byte* pixels) {
  const auto end = std::ranges::find(record, std::byte{0});
  TASUKI_CHECK(end != record.end(), "an image's record of {} bytes has no name", record.size());
  const auto length = static_cast<std::size_t>(end - record.begin());
  const std::string name(reinterpret_cast<const char*>(record.data()), length);
  const Image image = decode_image(record.subspan(length + 1), name, side);
  resize_and_crop(image, side, reinterpret_cast<std::uint8_t*>(pixels));
}

}  // namespace tasuki
