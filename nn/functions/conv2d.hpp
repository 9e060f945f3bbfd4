// Convolution of images (cross-correlation, as everywhere in the field).
#pragma once

#include "nn/variable.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// x: N x I x H x W, w: O x I/groups x KH x KW, b: O or undefined; y: N x O x H' x W' with
// H' = (H + 2 pad - dilation (KH - 1) - 1) / stride + 1, rounded down.
Variable conv2d(const Variable& x, const Variable& w, const Variable& b = {},
                const Conv2dOptions& options = {});

}  // namespace tasuki
