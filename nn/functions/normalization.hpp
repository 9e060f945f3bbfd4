// Batch, layer, group and local response normalisation; dropout and noise.
#pragma once

#include <cstdint>

#include "nn/variable.hpp"
#include "tensor/image_operations.hpp"

namespace tasuki::functions {

struct BatchStatistics {
  Tensor mean, variance;  // C values each; the variance is biased (divided by the number of values)
};

// Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167):
//   y = gamma * (x - mean) / sqrt(variance + eps) + beta
// per channel, statistics over N (and H, W) of the batch. x: N x C or N x C x H x W; gamma, beta:
// C. With `relu` the result is max(y, 0), at no cost. An empty batch is an error.
Variable batch_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                    float eps = 2e-5f, bool relu = false, BatchStatistics* statistics = nullptr);

// batch_norm() with given statistics, for evaluation: its backward pass is an error.
Variable fixed_batch_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                          const BatchStatistics& statistics, float eps = 2e-5f, bool relu = false);

// The formula of batch_norm() with mean and biased variance of each row (Ba, Kiros and Hinton,
// arXiv 1607.06450; Chainer's F.layer_normalization). gamma and beta: F values each. A row consists
// of x's last axes, which together have F elements: x is N x F, or N x T x F.
Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                    float eps = 1e-5f);

// The formula of batch_norm() with mean and variance of each group of neighbouring channels of an
// example (Wu and He, arXiv 1803.08494; Chainer's F.group_normalization). x: N x C x ..., C a
// multiple of `groups`; gamma, beta: C.
Variable group_norm(const Variable& x, std::int64_t groups, const Variable& gamma,
                    const Variable& beta, float eps = 1e-5f);

// Chainer's local_response_normalization of N x C x H x W: divides each element by a function of
// the same pixel in neighbouring channels (ResponseNormOptions, with Chainer's defaults). Unlike
// PyTorch's, alpha is not divided by the window's size.
Variable local_response_norm(const Variable& x, const ResponseNormOptions& options = {});

// Noise depends on the RandomScope's seed and epoch, the example, the place in the model and the
// element (nn/random.hpp), never on how examples are batched.

// Dropout (Srivastava et al., JMLR 15, 2014), scaled in training: each element is set to 0 with
// probability `ratio`, and the others are multiplied by 1 / (1 - ratio). In evaluation returns x.
Variable dropout(const Variable& x, float ratio = 0.5f);

// x + sigma * normal in training, x in evaluation.
Variable gaussian_noise(const Variable& x, float sigma);

// Uniform numbers in [-1, 1), in training and evaluation, such as the input of a GAN's generator.
// Axis 0 of `shape` counts examples.
Tensor uniform_noise(const Shape& shape, DType dtype, Device device);

}  // namespace tasuki::functions
