#include "tensor/cpu/softmax_kernels.hpp"

#include <cmath>

#include "tensor/cpu/fast_math.hpp"
#include "tensor/cpu/lanes.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
TASUKI_VECTORIZE float largest_in_row(const float* x, std::int64_t count) {
  return largest_in_lanes(x, count, x[0]);
}

TASUKI_VECTORIZE float exp_of_row(const float* x, float* y, float shift, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = limited_exp(x[j] - shift);
  return sum_in_lanes(y, count);
}

TASUKI_VECTORIZE void scale_row(const float* x, float* y, float factor, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = x[j] * factor;
}

std::int64_t row_grain(std::int64_t columns) {
  // Number of scores, an exponential each, for which waking a thread pays.
  constexpr std::int64_t worth_a_thread = 4096;
  return worth_a_thread / (columns + 1) + 1;
}

namespace {

// One after the other: the sum of a large top and a small logarithm would lose digits of the
// latter.
TASUKI_VECTORIZE void subtract_row(const float* x, float* y, float top, float log_sum,
                                   std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = (x[j] - top) - log_sum;
}

TASUKI_VECTORIZE void plain_gradient(const float* y, const float* dy, float* dx,
                                     std::int64_t count) {
  const float sum = product_in_lanes(y, dy, count);
  for (std::int64_t j = 0; j < count; ++j) dx[j] = y[j] * (dy[j] - sum);
}

TASUKI_VECTORIZE void logarithm_gradient(const float* y, const float* dy, float* dx,
                                         std::int64_t count) {
  const float sum = sum_in_lanes(dy, count);
  for (std::int64_t j = 0; j < count; ++j) dx[j] = dy[j] - limited_exp(y[j]) * sum;
}

}  // namespace

void softmax_row(const float* x, float* y, std::int64_t length, bool logarithm) {
  const float top = largest_in_row(x, length);
  const float sum = exp_of_row(x, y, top, length);
  if (logarithm)
    subtract_row(x, y, top, std::log(sum), length);
  else
    scale_row(y, y, 1 / sum, length);
}

void softmax_row_gradient(const float* y, const float* dy, float* dx, std::int64_t length,
                          bool logarithm) {
  (logarithm ? logarithm_gradient : plain_gradient)(y, dy, dx, length);
}

TASUKI_VECTORIZE void softmax_columns(const float* x, float* y, std::int64_t length,
                                      std::int64_t stride, std::int64_t columns, bool logarithm) {
  float tops[most_softmax_columns], sums[most_softmax_columns] = {};
  for (std::int64_t j = 0; j < columns; ++j) tops[j] = x[j];
  for (std::int64_t i = 1; i < length; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      tops[j] = tops[j] > x[i * stride + j] ? tops[j] : x[i * stride + j];
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const float e = limited_exp(x[i * stride + j] - tops[j]);
      y[i * stride + j] = e;
      sums[j] += e;
    }
  if (logarithm) {
    for (std::int64_t j = 0; j < columns; ++j) sums[j] = std::log(sums[j]);
    for (std::int64_t i = 0; i < length; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        y[i * stride + j] = (x[i * stride + j] - tops[j]) - sums[j];
    return;
  }
  for (std::int64_t j = 0; j < columns; ++j) sums[j] = 1 / sums[j];
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < columns; ++j) y[i * stride + j] *= sums[j];
}

TASUKI_VECTORIZE void softmax_columns_gradient(const float* y, const float* dy, float* dx,
                                               std::int64_t length, std::int64_t stride,
                                               std::int64_t columns, bool logarithm) {
  float sums[most_softmax_columns] = {};
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      sums[j] += dy[i * stride + j] * (logarithm ? 1.0f : y[i * stride + j]);
  for (std::int64_t i = 0; i < length; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t at = i * stride + j;
      dx[at] = logarithm ? dy[at] - limited_exp(y[at]) * sums[j] : y[at] * (dy[at] - sums[j]);
    }
}

}  // namespace tasuki
