#include "optimizer/power_sgd_arithmetic.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/philox.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Partial sums, in an order that no compiler changes.
constexpr std::int64_t lanes = 16;

template <class Sum>
double sum_of(const std::array<Sum, lanes>& parts) {
  double sum = 0;
  for (const Sum part : parts) sum += static_cast<double>(part);
  return sum;
}

TASUKI_VECTORIZE void add_products(float* parts, const float* x, const float* y,
                                   std::int64_t count) {
  for (std::int64_t i = 0; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) parts[lane] += x[i + lane] * y[i + lane];
}
TASUKI_VECTORIZE void add_products_in_double(double* parts, const float* x, const float* y,
                                             std::int64_t count) {
  for (std::int64_t i = 0; i + lanes <= count; i += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      parts[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(y[i + lane]);
}
TASUKI_VECTORIZE void add_multiple(float* result, const float* x, float factor,
                                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] += x[i] * factor;
}
TASUKI_VECTORIZE void scale(float* values, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] *= factor;
}
TASUKI_VECTORIZE void keep_finite(float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = values[i] - values[i] == 0 ? values[i] : 0;
}

float dot(const float* x, const float* y, std::int64_t count) {
  std::array<float, lanes> parts{};
  add_products(parts.data(), x, y, count);
  double sum = sum_of(parts);
  for (std::int64_t i = count / lanes * lanes; i < count; ++i)
    sum += static_cast<double>(x[i] * y[i]);
  return static_cast<float>(sum);
}

double dot_in_double(const float* x, const float* y, std::int64_t count) {
  std::array<double, lanes> parts{};
  add_products_in_double(parts.data(), x, y, count);
  double sum = sum_of(parts);
  for (std::int64_t i = count / lanes * lanes; i < count; ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

// The least number of rows, or columns, that is worth another thread.
std::int64_t grain(std::int64_t elements_of_each) {
  return elementwise_grain / std::max<std::int64_t>(elements_of_each, 1) + 1;
}

void add_product(float* m, std::int64_t rows, std::int64_t columns, const float* p, const float* q,
                 std::int64_t k, float sign) {
  parallel_for(rows, grain(columns * k), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t i = 0; i < k; ++i)
        add_multiple(m + row * columns, q + i * columns, sign * p[i * rows + row], columns);
  });
}

// Subtracts from a vector its part in the span of the first `others` vectors of `vectors`.
void project_away(float* vector, const float* vectors, std::int64_t others, std::int64_t length) {
  for (std::int64_t i = 0; i < others; ++i) {
    const float* const other = vectors + i * length;
    add_multiple(vector, other, -static_cast<float>(dot_in_double(vector, other, length)), length);
  }
}

// Returns false if the vector depends on the others, up to rounding.
bool make_orthonormal(float* vector, const float* vectors, std::int64_t others,
                      std::int64_t length) {
  constexpr double least = 1e-12;  // of the squared length; rounding leaves less
  const double before = dot_in_double(vector, vector, length);
  project_away(vector, vectors, others, length);
  project_away(vector, vectors, others, length);
  const double after = dot_in_double(vector, vector, length);
  // Also false if numbers are infinite or undefined.
  if (!(after > least * before) || !std::isfinite(after)) return false;
  scale(vector, static_cast<float>(1 / std::sqrt(after)), length);
  return true;
}

}  // namespace

void multiply(const float* m, std::int64_t rows, std::int64_t columns, const float* q,
              std::int64_t k, float* p) {
  parallel_for(rows, grain(columns * k), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t i = 0; i < k; ++i)
        p[i * rows + row] = dot(m + row * columns, q + i * columns, columns);
  });
}

void multiply_transposed(const float* m, std::int64_t rows, std::int64_t columns, const float* p,
                         std::int64_t k, float* q) {
  std::fill_n(q, columns * k, 0.0F);
  parallel_for(columns, grain(rows * k), [=](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t i = 0; i < k; ++i)
        add_multiple(q + i * columns + begin, m + row * columns + begin, p[i * rows + row],
                     end - begin);
  });
}

void write_product(float* m, std::int64_t rows, std::int64_t columns, const float* p,
                   const float* q, std::int64_t k) {
  std::fill_n(m, rows * columns, 0.0F);
  add_product(m, rows, columns, p, q, k, 1);
}

void subtract_product(float* m, std::int64_t rows, std::int64_t columns, const float* p,
                      const float* q, std::int64_t k) {
  add_product(m, rows, columns, p, q, k, -1);
}

void add(float* values, const float* others, std::int64_t count) {
  parallel_for(count, elementwise_grain, [=](std::int64_t begin, std::int64_t end) {
    add_multiple(values + begin, others + begin, 1, end - begin);
  });
}

void drop_infinite(float* values, std::int64_t count) {
  parallel_for(count, elementwise_grain, [=](std::int64_t begin, std::int64_t end) {
    keep_finite(values + begin, end - begin);
  });
}

void orthonormalize(float* vectors, std::int64_t length, std::int64_t k,
                    std::optional<std::uint64_t> draw) {
  for (std::int64_t i = 0; i < k; ++i) {
    float* const vector = vectors + i * length;
    if (make_orthonormal(vector, vectors, i, length)) continue;
    std::fill_n(vector, length, 0.0F);
    if (!draw) continue;
    RandomStream random(*draw, static_cast<std::uint64_t>(i));
    for (std::int64_t j = 0; j < length; ++j) vector[j] = random.normal();
    make_orthonormal(vector, vectors, i, length);
  }
}

}  // namespace tasuki
