// Vectorised loops of activation functions over floats, for one thread; activation.cpp spreads them
// over threads.
#pragma once

#include <cstdint>

#include "tensor/vectorize.hpp"

namespace tasuki {
TASUKI_VECTORIZED_BEGIN

// y = x < 0 ? 0 : x, so that not-a-number stays visible.
void relu_kernel(const float* x, float* y, std::int64_t count);
// dx = y <= 0 ? 0 : dy
void relu_backward_kernel(const float* y, const float* dy, float* dx, std::int64_t count);
// y = x > 0 ? x : slope * x, slope >= 0; the backward pass finds the side from y.
void leaky_relu_kernel(const float* x, float* y, float slope, std::int64_t count);
void leaky_relu_backward_kernel(const float* y, const float* dy, float* dx, float slope,
                                std::int64_t count);
// y = 1 / (1 + exp(-x))
void sigmoid_kernel(const float* x, float* y, std::int64_t count);
// dx = dy * y * (1 - y)
void sigmoid_backward_kernel(const float* y, const float* dy, float* dx, std::int64_t count);
void tanh_kernel(const float* x, float* y, std::int64_t count);
// dx = dy * (1 - y * y)
void tanh_backward_kernel(const float* y, const float* dy, float* dx, std::int64_t count);

TASUKI_VECTORIZED_END
}  // namespace tasuki
