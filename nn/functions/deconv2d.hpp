// Transposed convolution of images (Chainer's deconvolution_2d).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "nn/variable.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// The gradient of conv2d with respect to its input, as a function of its own: each pixel of x adds
// w, times its value, to y at `stride` times its place. x: N x I x H x W, w: I x O/groups x KH x
// KW, b: O or undefined; y: N x O x H' x W' with H' = stride (H - 1) + dilation (KH - 1) + 1 - 2
// pad. `size`: H' and W', where a stride above 1 leaves a choice: a convolution with these options
// must give H x W.
Variable deconv2d(const Variable& x, const Variable& w, const Variable& b = {},
                  const Conv2dOptions& options = {},
                  std::optional<std::pair<std::int64_t, std::int64_t>> size = {});

}  // namespace tasuki
