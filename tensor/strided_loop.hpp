// Nested loops over strided arrays, shared by broadcasting, transposing and slicing.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "tensor/shape.hpp"

namespace tasuki {

// Distances between neighbours along each axis, in elements; 0 where an axis repeats its values.
using Strides = std::array<std::int64_t, Shape::max_rank>;

Strides plain_strides(const Shape& shape);

// The shape that operands are broadcast to: shapes are aligned at their last axes, and an axis of
// size 1 is repeated. An error names `what` and the shapes.
Shape broadcast_shape(std::span<const Shape> shapes, const char* what);
// Strides over a plain array of shape `from` for loops over `to`.
Strides broadcast_strides(const Shape& from, const Shape& to);

// Axes that can be walked as one are merged, and axes of size 1 are left out. Kernels get a copy.
template <int arrays>
struct StridedLoop {
  int rank = 0;
  std::int64_t sizes[Shape::max_rank] = {};
  std::int64_t strides[arrays][Shape::max_rank] = {};

  StridedLoop() = default;
  StridedLoop(const Shape& shape, const std::array<Strides, arrays>& walks) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      const auto i = static_cast<std::size_t>(axis);
      if (shape[axis] == 1) continue;
      bool merges = rank > 0;
      for (std::size_t a = 0; a < arrays && merges; ++a)
        merges = strides[a][rank - 1] == walks[a][i] * shape[axis];
      if (!merges) sizes[rank++] = 1;
      sizes[rank - 1] *= shape[axis];
      for (std::size_t a = 0; a < arrays; ++a) strides[a][rank - 1] = walks[a][i];
    }
    if (rank > 0) return;
    rank = 1;
    sizes[0] = 1;
  }

  // Whether the array is a plain one of the loop's shape.
  bool is_plain(int array) const {
    std::int64_t expected = 1;
    for (int axis = rank; axis-- > 0; expected *= sizes[axis])
      if (sizes[axis] != 1 && strides[array][axis] != expected) return false;
    return true;
  }
};

}  // namespace tasuki
