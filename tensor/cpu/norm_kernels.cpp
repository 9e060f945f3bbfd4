#include "tensor/cpu/norm_kernels.hpp"

#include <cmath>

#include "tensor/cpu/lanes.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {

TASUKI_VECTORIZE RowStatistics row_statistics(const float* x, std::int64_t count, float eps) {
  const auto n = static_cast<float>(count);
  const float near = x[0];
  Lanes sums{}, squares{};
  std::int64_t j = 0;
  for (; j + lane_count <= count; j += lane_count) sums += lanes_at(x + j) - near;
  for (; j < count; ++j) sums[0] += x[j] - near;
  const float mean = near + total(sums) / n;
  for (j = 0; j + lane_count <= count; j += lane_count) {
    const Lanes centred = lanes_at(x + j) - mean;
    squares += centred * centred;
  }
  for (; j < count; ++j) squares[0] += (x[j] - mean) * (x[j] - mean);
  return {mean, 1 / std::sqrt(total(squares) / n + eps)};
}

TASUKI_VECTORIZE void normalize_row(const float* x, const float* gamma, const float* beta, float* y,
                                    RowStatistics row, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j)
    y[j] = gamma[j] * ((x[j] - row.mean) * row.inverse) + beta[j];
}

TASUKI_VECTORIZE void normalize_row_gradient(const float* __restrict x, const float* __restrict dy,
                                             const float* __restrict gamma,
                                             const float* __restrict added, float* __restrict dx,
                                             float* __restrict dgamma, float* __restrict dbeta,
                                             RowStatistics row, std::int64_t count) {
  Lanes sums{}, products{};
  std::int64_t j = 0;
  for (; j + lane_count <= count; j += lane_count) {
    const Lanes slope = lanes_at(gamma + j) * lanes_at(dy + j);
    sums += slope;
    products += slope * (lanes_at(x + j) - row.mean);
  }
  for (; j < count; ++j) {
    sums[0] += gamma[j] * dy[j];
    products[0] += gamma[j] * dy[j] * (x[j] - row.mean);
  }
  const auto n = static_cast<float>(count);
  const float mean_dy = total(sums) / n, mean_product = total(products) * row.inverse / n;
  for (j = 0; j < count; ++j) {
    const float normalised = (x[j] - row.mean) * row.inverse;
    dbeta[j] += dy[j];
    dgamma[j] += dy[j] * normalised;
    const float own = row.inverse * (gamma[j] * dy[j] - mean_dy - normalised * mean_product);
    dx[j] = added != nullptr ? added[j] + own : own;
  }
}

// Not factor * x + addend, which cancel out where the mean is large.
TASUKI_VECTORIZE void normalize_channel(const float* x, float* y, float gamma, float beta,
                                        RowStatistics row, std::int64_t count) {
  const float factor = gamma * row.inverse;
  for (std::int64_t j = 0; j < count; ++j) y[j] = factor * (x[j] - row.mean) + beta;
}

TASUKI_VECTORIZE SlopeSums slope_sums(const float* x, const float* dy, RowStatistics row,
                                      std::int64_t count) {
  Lanes sums{}, products{};
  std::int64_t j = 0;
  for (; j + lane_count <= count; j += lane_count) {
    const Lanes slope = lanes_at(dy + j);
    sums += slope;
    products += slope * (lanes_at(x + j) - row.mean);
  }
  for (; j < count; ++j) {
    sums[0] += dy[j];
    products[0] += dy[j] * (x[j] - row.mean);
  }
  return {total(sums), total(products) * row.inverse};
}

TASUKI_VECTORIZE void channel_gradient(const float* x, const float* dy, const float* added,
                                       float* dx, float gamma, float mean_dy, float mean_product,
                                       RowStatistics row, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) {
    const float normalised = (x[j] - row.mean) * row.inverse;
    const float own = row.inverse * (gamma * dy[j] - mean_dy - normalised * mean_product);
    dx[j] = added != nullptr ? added[j] + own : own;
  }
}

}  // namespace tasuki
