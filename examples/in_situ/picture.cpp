#include "picture.hpp"

#include <png.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <vector>

void write_picture(const std::string& path, const float* values, int rows, int columns,
                   int row_length) {
  std::vector<std::uint8_t> pixels;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      for (int channel = 0; channel < 3; ++channel) {
        const float value = 3 * values[i * row_length + j] - static_cast<float>(channel);
        pixels.push_back(static_cast<std::uint8_t>(255 * std::clamp(value, 0.0F, 1.0F)));
      }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(columns);
  image.height = static_cast<png_uint_32>(rows);
  image.format = PNG_FORMAT_RGB;
  if (png_image_write_to_file(&image, path.c_str(), 0, pixels.data(), 0, nullptr) == 0)
    throw std::runtime_error(path + ": " + image.message);
}
