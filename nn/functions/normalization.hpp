// Normalisation within each example.
#pragma once

#include <cstdint>

#include "nn/variable.hpp"

namespace tasuki {

// y = gamma * (x - mean) / sqrt(variance + eps) + beta, with mean and biased variance of each row
// (Ba, Kiros and Hinton, arXiv 1607.06450; Chainer's F.layer_normalization). gamma and beta: F
// values each. A row consists of x's last axes, which together have F elements: x is N x F, or N x
// T x F.
Variable layer_norm(const Variable& x, const Variable& gamma, const Variable& beta,
                    float eps = 1e-5f);

// The same with mean and variance of each group of neighbouring channels of an example (Wu and He,
// arXiv 1803.08494; Chainer's F.group_normalization). x: N x C x ..., C a multiple of `groups`;
// gamma, beta: C.
Variable group_norm(const Variable& x, std::int64_t groups, const Variable& gamma,
                    const Variable& beta, float eps = 1e-5f);

}  // namespace tasuki
