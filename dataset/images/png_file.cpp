#include "dataset/images/png_file.hpp"

#include <png.h>

#include <algorithm>
#include <cmath>

#include "core/error.hpp"

namespace tasuki {

std::string encode_png(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = PNG_FORMAT_RGB;
  std::string file;
  png_alloc_size_t bytes = 0;
  const auto write = [&](void* to) {
    if (png_image_write_to_memory(&png, to, &bytes, 0, image.pixels.data(), 0, nullptr) == 0)
      fail(ErrorKind::internal, "libpng cannot write an image of {} x {}: {}", image.width,
           image.height, png.message);
  };
  write(nullptr);
  file.resize(bytes);
  write(file.data());
  return file;
}

std::uint8_t byte_of(float value) {
  if (std::isnan(value))
    fail(ErrorKind::data,
         "expected pixels of 0 to 1, found one that is not a number; the model that made the image "
         "may have diverged (try a smaller learning rate)");
  return static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0f, 1.0f)));
}

Image tile_images(const Tensor& images, std::int64_t columns) {
  const Shape& shape = images.shape();
  TASUKI_CHECK(shape.rank() == 4 && (shape[1] == 1 || shape[1] == 3) && columns > 0,
               "a grid of images takes N x 1 x H x W or N x 3 x H x W, not {}", shape.text());
  const Tensor plain = images.plain();
  const std::int64_t height = shape[2], width = shape[3], rows = (shape[0] + columns - 1) / columns;
  Image grid{rows * (height + 1) + 1, columns * (width + 1) + 1, {}};
  grid.pixels.assign(static_cast<std::size_t>(grid.height * grid.width * 3), 0);
  for (std::int64_t i = 0; i < shape[0]; ++i)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        for (std::int64_t colour = 0; colour < 3; ++colour) {
          const std::int64_t channel = shape[1] == 1 ? 0 : colour;
          const float value =
              plain.data<float>()[((i * shape[1] + channel) * height + y) * width + x];
          const std::int64_t row = i / columns * (height + 1) + 1 + y;
          const std::int64_t column = i % columns * (width + 1) + 1 + x;
          grid.pixels[static_cast<std::size_t>((row * grid.width + column) * 3 + colour)] =
              byte_of(value);
        }
  return grid;
}

}  // namespace tasuki
