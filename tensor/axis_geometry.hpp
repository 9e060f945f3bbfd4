// What joining and cutting along an axis asks of its arguments and does with memory, for every
// backend.
#pragma once

#include <cstdint>
#include <span>

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

struct AxisGeometry {
  Shape shape;             // of the result
  std::int64_t rows = 1;   // places along the axes before, flattened
  std::int64_t inner = 1;  // elements along the axes after, flattened
};

// Of Backend::concat: parts of one device and type whose shapes differ along the axis alone.
AxisGeometry concat_geometry(std::span<const Tensor> parts, int axis);
// Of Backend::take.
AxisGeometry take_geometry(const Shape& x, int axis, std::int64_t begin, std::int64_t end);

}  // namespace tasuki
