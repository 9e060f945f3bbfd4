// ArrayHeader: type and shape of an array, sent ahead of its elements.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.hpp"

namespace tasuki {

// Sent as raw bytes: it has a fixed size and no pointers, and all ranks of a job run the same build
// on the same architecture.
struct ArrayHeader {
  std::int32_t dtype = 0;
  std::int32_t axes = 0;
  std::array<std::int64_t, Shape::max_rank> sizes{};

  ArrayHeader() = default;
  explicit ArrayHeader(const Tensor& tensor)
      : dtype(static_cast<std::int32_t>(tensor.dtype())), axes(tensor.shape().rank()) {
    for (int axis = 0; axis < axes; ++axis)
      sizes[static_cast<std::size_t>(axis)] = tensor.shape()[axis];
  }

  // An array of this type and shape in host memory; its elements are undefined.
  Tensor make() const {
    const std::span all(sizes);
    return Tensor::empty(Shape(all.first(static_cast<std::size_t>(axes))),
                         static_cast<DType>(dtype));
  }
};

inline std::vector<Tensor> make_all(std::span<const ArrayHeader> headers) {
  std::vector<Tensor> made;
  for (const auto& header : headers) made.push_back(header.make());
  return made;
}

inline std::span<std::byte> bytes_of(const Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.raw()), tensor.bytes()};
}

}  // namespace tasuki
