// Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167).
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

struct BatchStatistics {
  Tensor mean, variance;  // C values each; the variance is biased (divided by the number of values)
};

// y = gamma * (x - mean) / sqrt(variance + eps) + beta per channel, statistics over N (and H, W) of
// the batch. x: N x C or N x C x H x W; gamma, beta: C. With `relu` the result is max(y, 0), at no
// cost. An empty batch is an error.
Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                    float eps = 2e-5f, bool relu = false, BatchStatistics* statistics = nullptr);

// The same with given statistics; for evaluation only, its backward pass is an error.
Variable fixed_batch_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                          const BatchStatistics& statistics, float eps = 2e-5f, bool relu = false);

}  // namespace tasuki
