// Larger examples.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tensor/tensor.hpp"

namespace tasuki::onnx_graph {

// An axis with `size` elements, the given ones again and again.
inline Tensor repeated(const Tensor& x, int axis, std::int64_t size) {
  Shape shape = x.shape();
  const std::int64_t before = shape[axis];
  shape[axis] = size;
  std::int64_t outer = 1, inner = static_cast<std::int64_t>(size_of(x.dtype()));
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  Tensor result = Tensor::empty(shape, x.dtype());
  const Tensor plain = x.plain();
  const auto* const from = static_cast<const std::byte*>(plain.raw());
  auto* const to = static_cast<std::byte*>(result.raw());
  for (std::int64_t o = 0; o < outer; ++o)
    for (std::int64_t i = 0; i < size; ++i)
      std::copy_n(from + (o * before + i % before) * inner, inner, to + (o * size + i) * inner);
  return result;
}

}  // namespace tasuki::onnx_graph
