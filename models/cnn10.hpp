// The ten-layer convnet for small images.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// Nine blocks of 3x3 convolution, batch normalisation and ReLU, three each of 64, 128 and 256
// channels (block1_1 ... block3_3), with 2x2 average pooling between the groups; the mean over all
// pixels; fc. 1,923,914 parameters for 3 channels and 10 classes. N x channels x H x W to N x
// classes, images of 4 x 4 or more.
std::unique_ptr<Layer> cnn10(std::int64_t classes = 10, std::int64_t channels = 3);

}  // namespace tasuki
