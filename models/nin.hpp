// Network in network (Lin et al., arXiv 1312.4400) for ImageNet.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// Chainer's NIN, with its keys mlpconv1/0/W ... mlpconv4/2/b: the scores are the means over the
// pixels of the last layer's channels, one for each class. 7,595,176 parameters for 3 channels and
// 1000 classes. Made for 227 x 227 pixels; images have at least 63 along each side.
std::unique_ptr<Layer> nin(std::int64_t classes = 1000, std::int64_t channels = 3);

}  // namespace tasuki
