// Pooling and resizing of images, N x C x H x W to N x C x H' x W'.
#pragma once

#include <cstdint>

#include "nn/variable.hpp"
#include "tensor/resize.hpp"

namespace tasuki::functions {

// Largest element of each window; padding does not count. stride 0 means the window's size.
//   Windows begin at -pad, stride - pad, ... Along each axis there are as many as lie within the
// padded image, floor((size + 2 pad - window) / stride) + 1. If this division has a remainder,
// `cover_all` (Chainer's default) adds one window that reaches over the far edge, unless it would
// begin after the last pixel (as with PyTorch's ceil_mode; Chainer keeps such a window, with a
// result of -infinity).
Variable max_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                        std::int64_t pad = 0, bool cover_all = true);
// Mean of each window within the padded image; padding counts as zeros.
Variable average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                            std::int64_t pad = 0);
// average_pooling_2d(max(x, 0)), without a separate pass for ReLU if the device supports that.
Variable relu_average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                                 std::int64_t pad = 0);
// Mean over all pixels: N x C.
Variable global_average_pooling_2d(const Variable& x);

// Nearest: pixel i of an axis is pixel floor(i in / out) of x. Bilinear: as in PyTorch's
// interpolate, pixels are areas unless `align_corners` (Chainer's resize_images aligns corners).
Variable resize_images(const Variable& x, std::int64_t height, std::int64_t width,
                       const ResizeOptions& options = {});
// x enlarged by an integer factor. Nearest repeats each pixel (Chainer's unpooling_2d with windows
// of this size and cover_all=False).
Variable upsampling_2d(const Variable& x, std::int64_t factor,
                       const ResizeOptions& options = {Interpolation::nearest});

}  // namespace tasuki::functions
