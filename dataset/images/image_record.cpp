#include "dataset/images/image_record.hpp"

#include <algorithm>
#include <atomic>
#include <string>

#include "core/error.hpp"
#include "core/log.hpp"
#include "dataset/images/image.hpp"

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

void decode_image_record(std::span<const std::byte> record, const Field& field, std::byte* pixels) {
  const auto [name, file] = read_image_record(record);
  const std::int64_t side = field.shape[1];
  const Image image =
      decode_image(file, name, side, field.ignores_exif ? Exif::ignore : Exif::apply);
  if (image.lacks_end) warn_of_missing_end(name);
  resize_and_crop(image, side, reinterpret_cast<std::uint8_t*>(pixels));
}

void warn_of_missing_end(const std::string& name) {
  constexpr int most = 3;
  static std::atomic<int> said = 0;
  if (said >= most || said++ >= most) return;
  log_warning(
      "{}: the end of the file is missing, but no pixels are: it is used; get the file "
      "again if you can",
      name);
}

}  // namespace tasuki
