// Images written as PNG files.
#pragma once

#include <string>

#include "tasuki/dataset/images/image.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

// The contents of a PNG file.
std::string encode_png(const Image& image);

// A grid of images, row by row, with a border of a pixel between them: `images` is N x 1 x H x W or
// N x 3 x H x W on the CPU with values in 0 .. 1, which are rounded to bytes.
Image tile_images(const Tensor& images, std::int64_t columns);

}  // namespace tasuki
