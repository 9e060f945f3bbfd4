#include "tensor/strided_loop.hpp"

#include <algorithm>
#include <string>

#include "core/error.hpp"

namespace tasuki {

Strides plain_strides(const Shape& shape) {
  Strides strides{};
  std::int64_t step = 1;
  for (int axis = shape.rank(); axis-- > 0; step *= shape[axis])
    strides[static_cast<std::size_t>(axis)] = step;
  return strides;
}

Shape broadcast_shape(std::span<const Shape> shapes, const char* what) {
  Shape result;
  for (const Shape& shape : shapes)
    if (shape.rank() > result.rank()) result = shape;
  for (const Shape& shape : shapes) {
    const int missing = result.rank() - shape.rank();
    for (int axis = 0; axis < shape.rank(); ++axis) {
      std::int64_t& size = result[axis + missing];
      if (size == 1) size = shape[axis];
      if (shape[axis] == size || shape[axis] == 1) continue;
      std::string all;
      for (const Shape& each : shapes) all += (all.empty() ? "" : " and ") + each.text();
      TASUKI_CHECK(false, "{}: shapes {} cannot be broadcast to a common one", what, all);
    }
  }
  return result;
}

Strides broadcast_strides(const Shape& from, const Shape& to) {
  Strides strides{};
  const Strides own = plain_strides(from);
  const auto missing = static_cast<std::size_t>(to.rank() - from.rank());
  for (int axis = 0; axis < from.rank(); ++axis)
    strides[missing + static_cast<std::size_t>(axis)] =
        from[axis] == 1 ? 0 : own[static_cast<std::size_t>(axis)];
  return strides;
}

}  // namespace tasuki
