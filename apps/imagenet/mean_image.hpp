// The mean image that Chainer's compute_mean.py writes.
#pragma once

#include <string>

#include "tensor/tensor.hpp"

namespace tasuki {

// The float32 array of an NPY file.
Tensor read_mean_image(const std::string& name);

}  // namespace tasuki
