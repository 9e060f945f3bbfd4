// Shapes of a pooling, checked in one place for all backends.
#pragma once

#include <string>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

struct PoolingGeometry {
  Shape x, y;  // N x C x H x W, N x C x OH x OW
  Pool2dOptions options;
  // Padding after the last row and column, as much as the last windows need.
  std::int64_t pad_end_h = 0, pad_end_w = 0;

  // Computes the shape of y; an Error names shapes and settings that do not fit each other. With
  // `cover_all` windows over the far edge count, unless they would begin beyond it.
  PoolingGeometry(const Shape& x_shape, const Pool2dOptions& settings);
  std::string text() const;
};

}  // namespace tasuki
