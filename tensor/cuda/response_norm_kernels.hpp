// Kernels of local response normalisation (tensor/image_operations.hpp).
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// Elements of neighbouring channels are `step` apart: the pixels of an image, or 1 with channels
// last.
struct ResponseNorm {
  std::int64_t count, channels, step, reach;
  float k, alpha, beta;
};

// `sums` (count float32 values, may be nullptr) gets k + alpha * the sum of squares.
void response_norm(const Launch& launch, DType type, const void* x, void* y, float* sums,
                   const ResponseNorm& norm);
void response_norm_backward(const Launch& launch, DType type, const void* x, const void* dy,
                            const float* sums, void* dx, const ResponseNorm& norm);

}  // namespace tasuki::kernels
