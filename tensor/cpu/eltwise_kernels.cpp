#include "tensor/cpu/eltwise_kernels.hpp"

#include "tensor/cpu/fast_math.hpp"
#include "tensor/cpu/lanes.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {

// Choices are between values that are computed already, because a loop with a load or an operation
// under a condition is not vectorised.

TASUKI_VECTORIZE void relu_kernel(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] < 0 ? 0 : x[i];
}

TASUKI_VECTORIZE void relu_backward_kernel(const float* y, const float* dy, float* dx,
                                           std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float upstream = dy[i];
    dx[i] = y[i] <= 0 ? 0 : upstream;
  }
}

TASUKI_VECTORIZE void leaky_relu_kernel(const float* x, float* y, float slope, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] * (x[i] > 0 ? 1.0f : slope);
}

TASUKI_VECTORIZE void leaky_relu_backward_kernel(const float* y, const float* dy, float* dx,
                                                 float slope, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (y[i] > 0 ? 1.0f : slope);
}

TASUKI_VECTORIZE void sigmoid_kernel(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = fast_sigmoid(x[i]);
}

TASUKI_VECTORIZE void sigmoid_backward_kernel(const float* y, const float* dy, float* dx,
                                              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
}

TASUKI_VECTORIZE void tanh_kernel(const float* x, float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = fast_tanh(x[i]);
}

TASUKI_VECTORIZE void tanh_backward_kernel(const float* y, const float* dy, float* dx,
                                           std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
}

TASUKI_VECTORIZE void add_kernel(const float* a, const float* b, float* c, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) c[i] = a[i] + b[i];
}

TASUKI_VECTORIZE void accumulate_kernel(float* y, const float* x, float scale, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += scale * x[i];
}

TASUKI_VECTORIZE void scale_kernel(float* x, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

TASUKI_VECTORIZE void column_sum_kernel(const float* x, float* __restrict sums, std::int64_t rows,
                                        std::int64_t columns) {
  // Four rows at a time, so that the sums are loaded and stored a quarter as often.
  std::int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float* const r0 = x + i * columns;
    const float* const r1 = r0 + columns;
    const float* const r2 = r1 + columns;
    const float* const r3 = r2 + columns;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += (r0[j] + r1[j]) + (r2[j] + r3[j]);
  }
  for (; i < rows; ++i) {
    const float* const row = x + i * columns;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += row[j];
  }
}

TASUKI_VECTORIZE void row_sum_kernel(const float* x, float* sums, std::int64_t rows,
                                     std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) sums[i] += sum_in_lanes(x + i * columns, columns);
}

TASUKI_VECTORIZE void repeat_row_kernel(const float* values, float* __restrict rows,
                                        std::int64_t count, std::int64_t columns) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < columns; ++j) rows[i * columns + j] = values[j];
}

}  // namespace tasuki
