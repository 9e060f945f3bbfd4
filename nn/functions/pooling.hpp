// Pooling of images, N x C x H x W to N x C x H' x W'.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// Largest element of each window; padding does not count. stride 0 means the window's size.
//   Windows begin at -pad, stride - pad, ... Along each axis there are as many as lie within the
// padded image, floor((size + 2 pad - window) / stride) + 1. With `cover_all` (Chainer's default),
// where this division has a remainder, there is one more, which reaches over the far edge. It is
// left out if it would begin behind the last pixel (as with PyTorch's ceil_mode; Chainer keeps it,
// with a result of -infinity).
Variable max_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                        std::int64_t pad = 0, bool cover_all = true);
// Mean of each window within the padded image; padding counts as zeros.
Variable average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                            std::int64_t pad = 0);
// The same of max(x, 0), without a separate pass for ReLU if the device supports that.
Variable relu_average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                                 std::int64_t pad = 0);
// Mean over all pixels: N x C.
Variable global_average_pooling_2d(const Variable& x);

}  // namespace tasuki
