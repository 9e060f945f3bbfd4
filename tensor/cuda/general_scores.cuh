// The types of scores and labels.
#pragma once

#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/loss_kernels.hpp"

namespace tasuki::kernels {

// visitor(Type<T>{}, labels)
template <class Visitor>
void with_scores(const GeneralScores& scores, Visitor&& visitor) {
  with_float_type(scores.type, [&](auto type) {
    if (scores.label_type == DType::int64)
      visitor(type, static_cast<const std::int64_t*>(scores.labels));
    else
      visitor(type, static_cast<const std::int32_t*>(scores.labels));
  });
}

}  // namespace tasuki::kernels
