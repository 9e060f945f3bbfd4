// One of our own ways to compute convolutions, beside oneDNN's.
#pragma once

#include "tensor/geometry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Images and filters in any layout; b is float32 or undefined. The gradient of w is float32.
struct OwnConvolution {
  Tensor (*forward)(const ConvolutionGeometry&, const Tensor& x, const Tensor& w, const Tensor& b);
  Tensor (*backward_data)(const ConvolutionGeometry&, const Tensor& dy, const Tensor& w);
  Tensor (*backward_weights)(const ConvolutionGeometry&, const Tensor& x, const Tensor& dy);
};

}  // namespace tasuki
