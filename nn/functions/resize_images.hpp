// Images in another size.
#pragma once

#include <cstdint>

#include "nn/variable.hpp"
#include "tensor/resize.hpp"

namespace tasuki {

// x: N x C x H x W to N x C x height x width. Nearest: pixel i of an axis is pixel floor(i in /
// out) of x. Bilinear: as in PyTorch's interpolate, by areas unless `align_corners` (Chainer's
// resize_images aligns corners).
Variable resize_images(const Variable& x, std::int64_t height, std::int64_t width,
                       const ResizeOptions& options = {});

// x enlarged by an integer factor. Nearest repeats each pixel (Chainer's unpooling_2d with windows
// of this size and cover_all=False).
Variable upsampling_2d(const Variable& x, std::int64_t factor,
                       const ResizeOptions& options = {Interpolation::nearest});

}  // namespace tasuki
