// Pooling of images, N x C x H x W to N x C x H' x W'.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// Largest element of each window. stride 0 means the window's size. With `cover_all` (Chainer's
// default) windows that reach over the far edge count as well.
Variable max_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                        std::int64_t pad = 0, bool cover_all = true);
// Mean of each window; padding counts as zeros.
Variable average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                            std::int64_t pad = 0);
// The same of max(x, 0), without a separate pass for ReLU if the device supports that.
Variable relu_average_pooling_2d(const Variable& x, std::int64_t window, std::int64_t stride = 0,
                                 std::int64_t pad = 0);
// Mean over all pixels: N x C.
Variable global_average_pooling_2d(const Variable& x);

}  // namespace tasuki
