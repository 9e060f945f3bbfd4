// Shapes and memory order for joining and cutting along an axis, for every backend.
#pragma once

#include <cstdint>
#include <span>

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

struct AxisGeometry {
  Shape shape;             // of the result
  std::int64_t rows = 1;   // positions along the axes before, flattened
  std::int64_t inner = 1;  // elements along the axes after, flattened
};

// For Backend::concat: parts of one device and type whose shapes differ only along the axis.
AxisGeometry concat_geometry(std::span<const Tensor> parts, int axis);
// For Backend::take.
AxisGeometry take_geometry(const Shape& x, int axis, std::int64_t begin, std::int64_t end);

}  // namespace tasuki
