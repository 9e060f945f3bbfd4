// How element-wise operations take their operands.
#pragma once

#include "tensor/cpu/dnnl_support.hpp"

namespace tasuki {

inline float* floats(const Tensor& tensor) {
  TASUKI_CHECK(tensor.dtype() == DType::float32, "expected a float32 tensor, found {}",
               name_of(tensor.dtype()));
  return static_cast<float*>(tensor.raw());
}

// `x` in the layout of `model`.
inline Tensor aligned(const Tensor& x, const Tensor& model, const char* what) {
  TASUKI_CHECK(x.shape() == model.shape(), "{}: shapes {} and {} differ", what,
               model.shape().text(), x.shape().text());
  return x.layout() == model.layout() ? x : reordered(x, desc_of(model));
}

// Functions whose value at 0 is not 0 would fill the padding of a blocked layout.
inline Tensor without_padding(const Tensor& x) {
  return stored_count(x) == x.count() ? x : x.plain();
}

}  // namespace tasuki
