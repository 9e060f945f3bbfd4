// Shapes of a convolution, checked in one place for all backends.
#pragma once

#include <string>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

struct ConvolutionGeometry {
  Shape x, w, y;  // N x I x H x W, O x I/groups x KH x KW, N x O x OH x OW
  Conv2dOptions options;

  // Computes the shape of y; an Error names shapes and settings that do not fit each other.
  ConvolutionGeometry(const Shape& x_shape, const Shape& w_shape, const Conv2dOptions& settings);
  std::string text() const;
};

}  // namespace tasuki
