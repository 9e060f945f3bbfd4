// Wide residual networks (Zagoruyko and Komodakis, arXiv 1605.07146).
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// WRN-depth-widen for small images: conv1 (16 channels), group1 ... group3 of (depth - 4) / 6
// blocks each with 16, 32 and 64 times `widen` channels, the first block of group2 and group3 with
// stride 2; bn with ReLU; the mean over all pixels; fc. A block is bn1, ReLU, conv1, bn2, ReLU,
// conv2 and the sum with its input, which goes through a 1x1 convolution `shortcut`, after the
// first ReLU, if the number of channels changes. No dropout. 36,479,194 parameters for WRN-28-10
// with 3 channels and 10 classes. A depth that is not 6 n + 4 is an error.
std::unique_ptr<Layer> wide_resnet(int depth, std::int64_t widen, std::int64_t classes = 10,
                                   std::int64_t channels = 3);

}  // namespace tasuki
