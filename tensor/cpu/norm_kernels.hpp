// Loops of layer and group normalisation over rows in contiguous memory.
#pragma once

#include <cstdint>

#include "tensor/vectorize.hpp"

namespace tasuki {
TASUKI_VECTORIZED_BEGIN

struct RowStatistics {
  float mean, inverse;  // inverse: 1 / sqrt(variance + eps)
};

// In two passes, the first over distances from the first value, so that a large mean costs no
// digits. `count` is at least 1.
RowStatistics row_statistics(const float* x, std::int64_t count, float eps);

// Channels of one pixel each: y = gamma * (x - mean) * inverse + beta.
void normalize_row(const float* x, const float* gamma, const float* beta, float* y,
                   RowStatistics row, std::int64_t count);
// dx, plus `added` unless it is null; adds to dgamma and dbeta.
void normalize_row_gradient(const float* x, const float* dy, const float* gamma, const float* added,
                            float* dx, float* dgamma, float* dbeta, RowStatistics row,
                            std::int64_t count);

// A channel of several pixels: y = gamma * (x - mean) * inverse + beta.
void normalize_channel(const float* x, float* y, float gamma, float beta, RowStatistics row,
                       std::int64_t count);
// Sums over a channel of dy and of dy times the normalised x.
struct SlopeSums {
  float dy, product;
};
SlopeSums slope_sums(const float* x, const float* dy, RowStatistics row, std::int64_t count);
// dx = inverse * (gamma * dy - mean_dy - x' * mean_product), x' the normalised x, plus `added`
// unless it is null.
void channel_gradient(const float* x, const float* dy, const float* added, float* dx, float gamma,
                      float mean_dy, float mean_product, RowStatistics row, std::int64_t count);

TASUKI_VECTORIZED_END
}  // namespace tasuki
