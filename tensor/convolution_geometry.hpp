// Shapes of a convolution: checked once, for every backend alike.
#pragma once

#include <string>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

struct ConvolutionGeometry {
  Shape x, w, y;  // N x I x H x W, O x I/groups x KH x KW, N x O x OH x OW
  Conv2dOptions options;

  // The shape of y follows; an Error names shapes and settings that do not fit each other.
  ConvolutionGeometry(const Shape& x_shape, const Shape& w_shape, const Conv2dOptions& settings);
  std::string text() const;
};

}  // namespace tasuki
