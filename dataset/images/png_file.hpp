// Images written as PNG files.
#pragma once

#include <cstdint>
#include <string>

#include "dataset/images/image.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// The contents of a PNG file.
std::string encode_png(const Image& image);

// The byte of a pixel, 255 for 1: rounded, and clipped for values outside of 0 .. 1. A value that
// is not a number is an error of kind data.
std::uint8_t byte_of(float value);

// A grid of images, row by row, with a border of a pixel between them: `images` is N x 1 x H x W or
// N x 3 x H x W on the CPU, and byte_of() makes the pixels.
Image tile_images(const Tensor& images, std::int64_t columns);

}  // namespace tasuki
