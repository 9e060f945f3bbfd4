// The orthonormal basis of PowerSGD.
#include "optimizer/power_sgd_arithmetic.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "compressed_network.hpp"

namespace tasuki {
namespace {

using testing::random_values;

double dot(const float* x, const float* y, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i)
    sum += static_cast<double>(x[i]) * static_cast<double>(y[i]);
  return sum;
}

void expect_orthonormal(const std::vector<float>& vectors, std::int64_t length, std::int64_t k) {
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j <= i; ++j)
      EXPECT_NEAR(dot(&vectors[static_cast<std::size_t>(i * length)],
                      &vectors[static_cast<std::size_t>(j * length)], length),
                  i == j ? 1 : 0, 1e-6)
          << i << ", " << j;
}

TEST(Orthonormalize, KeepsTheSpan) {
  constexpr std::int64_t length = 37, k = 5;
  const std::vector<float> before = random_values(length * k, 3);
  std::vector<float> vectors = before;
  // Nearly parallel ones lose most of their digits in one pass.
  for (std::size_t i = 0; i < length; ++i)
    vectors[length + i] = vectors[i] + 1e-4F * vectors[length + i];
  const std::vector<float> first(vectors.begin(), vectors.begin() + length);
  orthonormalize(vectors.data(), length, k, std::nullopt);
  expect_orthonormal(vectors, length, k);
  const double norm = std::sqrt(dot(first.data(), first.data(), length));
  for (std::size_t i = 0; i < length; ++i) EXPECT_NEAR(vectors[i], first[i] / norm, 1e-6);
}

TEST(Orthonormalize, ZeroesOrRedrawsDependentVectors) {
  constexpr std::int64_t length = 40, k = 4;
  std::vector<float> vectors = random_values(length * k, 5);
  for (std::size_t i = 0; i < length; ++i) {
    vectors[length + i] = 3 * vectors[i];
    vectors[2 * length + i] = 0;
  }
  std::vector<float> drawn = vectors, again = vectors;
  orthonormalize(vectors.data(), length, k, std::nullopt);
  for (std::size_t i = length; i < 3 * length; ++i) ASSERT_EQ(vectors[i], 0);
  EXPECT_NEAR(dot(&vectors[3 * length], &vectors[3 * length], length), 1, 1e-6);
  orthonormalize(drawn.data(), length, k, 7);
  expect_orthonormal(drawn, length, k);
  orthonormalize(again.data(), length, k, 7);
  EXPECT_EQ(drawn, again);
}

}  // namespace
}  // namespace tasuki
