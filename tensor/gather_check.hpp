// What every backend's gather() asks of its arguments.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

inline void check_gather(const Tensor& source, const Tensor& indices, DType dtype) {
  TASUKI_CHECK(source.shape().rank() >= 1 && source.is_plain(),
               "gather: a plain tensor of items was expected, not one of {}",
               source.shape().text());
  TASUKI_CHECK(indices.shape().rank() == 1 && indices.dtype() == DType::int64 &&
                   indices.is_plain() &&
                   (indices.device().is_cpu() || indices.device() == source.device()),
               "gather: a vector of int64 numbers was expected, not {} of {}",
               indices.shape().text(), name_of(indices.dtype()));
  const bool to_float =
      dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16;
  const bool converts =
      to_float && (source.dtype() == DType::uint8 || source.dtype() == DType::float32);
  TASUKI_CHECK(dtype == source.dtype() || converts, "gather: items of {} cannot be had as {}",
               name_of(source.dtype()), name_of(dtype));
}

}  // namespace tasuki
