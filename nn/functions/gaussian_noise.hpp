// Random noise, as in GANs.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// x + sigma * normal in training, x in evaluation. The noise is a function of (seed, epoch,
// example, place in the forward pass, element), as dropout's masks are (nn/random.hpp).
Variable gaussian_noise(const Variable& x, float sigma);

// Numbers in [-1, 1), functions of the same, in training and evaluation: the input of a generator.
// Axis 0 of `shape` is that of the examples.
Tensor uniform_noise(const Shape& shape, DType dtype, Device device);

}  // namespace tasuki
