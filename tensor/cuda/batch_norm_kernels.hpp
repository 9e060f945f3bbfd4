// Kernels of batch normalisation, optionally with ReLU in the same pass. Statistics are float32 for
// all types of activations; the order of additions depends only on shapes and the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// N x C x pixels, plain or channels last. items * pixels, the values of a channel, are at least 1
// and fewer than 2^31.
struct BatchNormSize {
  std::int64_t items, channels, pixels;
  bool channels_last;
};

// C values each.
struct BatchNormChannels {
  const float* mean;
  const float* inverse_deviation;  // 1 / sqrt(variance + eps)
  const float* gamma;
  const float* beta;
};

// float32 values of scratch memory for the sums below.
std::size_t batch_norm_scratch(const Launch& launch, DType type, const BatchNormSize& size);

// From x, by channel: mean, biased variance, 1 / sqrt(variance + eps).
void batch_norm_statistics(const Launch& launch, DType type, const void* x,
                           const BatchNormSize& size, float eps, float* mean, float* variance,
                           float* inverse_deviation, float* scratch);
void batch_norm_inverse_deviation(const Launch& launch, float* inverse_deviation,
                                  const float* variance, float eps, std::int64_t channels);
// The same in two parts. batch_norm_sums() writes the sums of x (C), of its squares (C) and the
// number of values of a channel (1). batch_norm_from_sums() finds the statistics from such sums,
// which may have been added up over several x, and moves the averages unless the number is 0.
void batch_norm_sums(const Launch& launch, DType type, const void* x, const BatchNormSize& size,
                     double* sums, float* scratch);
struct BatchNormFound {
  float *mean, *variance, *inverse_deviation, *average_mean, *average_variance;
};
void batch_norm_from_sums(const Launch& launch, const double* sums, std::int64_t channels,
                          float eps, float decay, const BatchNormFound& found);

// y = (x - mean) * inverse_deviation * gamma + beta, not below 0 with `relu`.
void batch_norm_apply(const Launch& launch, DType type, void* y, const void* x,
                      const BatchNormSize& size, const BatchNormChannels& channels, bool relu);

// dgamma and dbeta, overwritten or added to, and what dx needs: the means over a channel of dy and
// of dy * normalised x (`means`, 2 C values).
void batch_norm_gradient_sums(const Launch& launch, DType type, const void* x, const void* dy,
                              const BatchNormSize& size, const BatchNormChannels& channels,
                              bool relu, float* dgamma, float* dbeta, bool accumulate, float* means,
                              float* scratch);
// `means` from the 2 C sums over all values, dbeta first, and batch_norm_sums' number of them.
void batch_norm_gradient_means(const Launch& launch, const double* sums, const float* all,
                               std::int64_t channels, float* means);
// dx, plus `added` unless it is null.
void batch_norm_gradient(const Launch& launch, DType type, void* dx, const void* x, const void* dy,
                         const BatchNormSize& size, const BatchNormChannels& channels, bool relu,
                         const float* means, const void* added);

}  // namespace tasuki::kernels
