#include <png.h>

#include <algorithm>

#include "tasuki/core/error.hpp"
#include "tasuki/dataset/images/image_formats.hpp"

namespace tasuki {

Image decode_png(std::span<const std::byte> file, const std::string& name) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  const auto check = [&](int done) {
    if (done != 0 && (png.warning_or_error & PNG_IMAGE_ERROR) == 0) return;
    const std::string found = png.message;
    png_image_free(&png);
    fail_on_image(name, "PNG", found);
  };
  check(png_image_begin_read_from_memory(&png, file.data(), file.size()));
  if (std::max(png.width, png.height) > largest_image_side) {
    png_image_free(&png);
    fail_on_image(name, "PNG", fmt::format("{} x {} pixels", png.width, png.height));
  }
  png.format = PNG_FORMAT_RGB;
  Image image{png.height, png.width, {}};
  image.pixels.resize(PNG_IMAGE_SIZE(png));
  const png_color black{0, 0, 0};
  check(png_image_finish_read(&png, &black, image.pixels.data(), 0, nullptr));
  return image;
}

}  // namespace tasuki
