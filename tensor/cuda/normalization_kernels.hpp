// Softmax over an axis; layer, group and local response normalisation. Computed in float32 for all
// types of activations; sums are added in an order that depends on the sizes and the device only.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// Elements around an axis, at least one.
struct Axis {
  std::int64_t outer = 1, length = 1, inner = 1;
};
void softmax(const Launch& launch, DType type, const Axis& axis, const void* x, void* y,
             bool logarithm);
void softmax_gradient(const Launch& launch, DType type, const Axis& axis, const void* y,
                      const void* dy, void* dx, bool logarithm);

// items x groups rows of channels x pixels elements each, at least one.
struct NormArray {
  std::int64_t items = 0, groups = 1, channels = 0, pixels = 1;
};
// statistics: mean and 1 / sqrt(variance + eps) of each row.
void normalize(const Launch& launch, DType type, const NormArray& array, const void* x,
               const float* gamma, const float* beta, float eps, void* y, float* statistics);
// dx, plus `added` unless it is null.
void normalize_gradient(const Launch& launch, DType type, const NormArray& array, const void* x,
                        const float* statistics, const void* dy, const float* gamma,
                        const void* added, void* dx);

// The same for rows that a warp can keep, whose arrays begin at multiples of 16 bytes.
bool fits_layer_norm(DType type, const NormArray& array);
void layer_norm(const Launch& launch, DType type, const NormArray& array, const void* x,
                const float* gamma, const float* beta, float eps, void* y, float* statistics);
void layer_norm_gradient(const Launch& launch, DType type, const NormArray& array, const void* x,
                         const float* statistics, const void* dy, const float* gamma,
                         const void* added, void* dx);

// dgamma and dbeta. `scratch`: norm_parts() times 2 groups channels floats.
std::int64_t norm_parts(const Launch& launch, const NormArray& array);
void normalize_parameters(const Launch& launch, DType type, const NormArray& array, const void* x,
                          const float* statistics, const void* dy, float* dgamma, float* dbeta,
                          bool accumulate, float* scratch);

// For local response normalisation (tensor/image_operations.hpp). Elements of neighbouring channels
// are `step` apart: the pixels of an image, or 1 with channels last.
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
