// Vectorised loops over floats, for one thread; eltwise.cpp spreads them over threads.
#pragma once

#include <cstdint>

namespace tasuki {

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
// c = a + b
void add_kernel(const float* a, const float* b, float* c, std::int64_t count);
// y += scale * x
void accumulate_kernel(float* y, const float* x, float scale, std::int64_t count);
// x *= factor
void scale_kernel(float* x, float factor, std::int64_t count);
// sums[j] += sum over rows i of x[i * columns + j]
void column_sum_kernel(const float* x, float* sums, std::int64_t rows, std::int64_t columns);
// sums[i] += sum over columns j of x[i * columns + j]
void row_sum_kernel(const float* x, float* sums, std::int64_t rows, std::int64_t columns);
// rows[i * columns + j] = values[j]
void repeat_row_kernel(const float* values, float* rows, std::int64_t count, std::int64_t columns);

}  // namespace tasuki
