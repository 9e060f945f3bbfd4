// LeNet with ReLU and average pooling, on 28 x 28 pixels.
#pragma once

#include <cstdint>
#include <memory>

#include "nn/layer.hpp"

namespace tasuki {

// After LeNet-5 (LeCun et al., "Gradient-based learning applied to document recognition", 1998):
// conv1 1-20 3x3, conv2 20-50 5x5, each with ReLU and 2x2 average pooling; fc1 800-128 with ReLU;
// fc2 128-classes. N x 1 x 28 x 28 to N x classes. Weights are normal with deviation 0.01, biases
// zero; with plain SGD the loss falls only after about one epoch.
std::unique_ptr<Layer> lenet(std::int64_t classes = 10);

}  // namespace tasuki
