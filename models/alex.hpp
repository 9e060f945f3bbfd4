// AlexNet (Krizhevsky et al., "ImageNet classification with deep convolutional neural networks",
// NeurIPS 2012) for one device.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// Chainer's Alex, with its keys: conv1 ... conv5, fc6 ... fc8, local response normalisation after
// the first two, dropout after fc6 and fc7. Convolutions are not grouped. 62,378,344 parameters for
// 3 x 227 x 227 and 1000 classes; images have at least 63 pixels along each side.
std::unique_ptr<Layer> alex(std::int64_t classes = 1000, const Shape& image = {3, 227, 227});

}  // namespace tasuki
