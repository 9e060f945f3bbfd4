// Products of matrices of bfloat16: exact products, sums of float32, in an order that depends on
// nothing but the number of terms.
#include "tensor/cpu/rounded_product.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "tensor/cpu/pair_kernels.hpp"
#include "tensor/half.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::random_tensor;

// op(a) op(b) of matrices of this size, a and b rounded and, where asked for, stored transposed.
struct Product {
  RoundedMatrix a, b;
  Tensor a_values = a.values.to(DType::float32), b_values = b.values.to(DType::float32);

  Product(std::int64_t m, std::int64_t n, std::int64_t k, bool transposed_a, bool transposed_b)
      : a{rounded(m, k, transposed_a, 1), transposed_a},
        b{rounded(k, n, transposed_b, 2), transposed_b} {}

  double exact(std::int64_t i, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t l = 0; l < a.columns(); ++l)
      sum += at(a, a_values, i, l) * at(b, b_values, l, j);
    return sum;
  }
  Tensor c(DType type) const { return Tensor::empty({a.rows(), b.columns()}, type); }

 private:
  static Tensor rounded(std::int64_t rows, std::int64_t columns, bool transposed,
                        std::uint64_t seed) {
    const Shape shape = transposed ? Shape{columns, rows} : Shape{rows, columns};
    return random_tensor(shape, seed).to(DType::bfloat16);
  }
  static double at(const RoundedMatrix& m, const Tensor& values, std::int64_t i, std::int64_t j) {
    return static_cast<double>(
        values.data<float>()[m.transposed ? j * m.rows() + i : i * m.columns() + j]);
  }
};

void expect_exact(const Product& product, const Tensor& c, double tolerance,
                  const std::function<double(std::int64_t, std::int64_t)>& expected) {
  const Tensor found = c.to(DType::float32);
  const double scale = std::sqrt(static_cast<double>(product.a.columns()));
  for (std::int64_t i = 0; i < product.a.rows(); ++i)
    for (std::int64_t j = 0; j < product.b.columns(); ++j)
      ASSERT_NEAR(static_cast<double>(found.data<float>()[i * product.b.columns() + j]),
                  expected(i, j), tolerance * scale)
          << i << ", " << j;
}

TEST(RoundedProduct, HasSumsOfFloat32InOddShapes) {
  const std::int64_t sizes[] = {1, 3, 33, 100};
  for (const std::int64_t m : sizes)
    for (const std::int64_t n : sizes)
      for (const std::int64_t k : sizes)
        for (const int transposed : {0, 1, 2, 3}) {
          SCOPED_TRACE(fmt::format("{} x {} x {}, transposed: {}", m, n, k, transposed));
          const Product product(m, n, k, (transposed & 1) != 0, (transposed & 2) != 0);
          const Tensor c = product.c(DType::float32), rounded = product.c(DType::bfloat16);
          multiply_rounded(product.a, product.b, c);
          expect_exact(product, c, 1e-6,
                       [&](std::int64_t i, std::int64_t j) { return product.exact(i, j); });
          multiply_rounded(product.a, product.b, rounded);
          EXPECT_LT(testing::distance(rounded, c), 0x1p-8f);
          if (HasFailure()) return;
        }
}

TEST(RoundedProduct, AddsABiasClipsAndAccumulates) {
  const Product product(33, 100, 70, false, true);
  const Tensor bias = random_tensor({100}, 3);
  const Tensor c = product.c(DType::float32), clipped = product.c(DType::float32);
  const auto with_bias = [&](std::int64_t i, std::int64_t j) {
    return product.exact(i, j) + static_cast<double>(bias.data<float>()[j]);
  };
  multiply_rounded(product.a, product.b, c, {.bias = bias});
  expect_exact(product, c, 1e-6, with_bias);
  multiply_rounded(product.a, product.b, clipped, {.bias = bias, .relu = true});
  expect_exact(product, clipped, 1e-6,
               [&](std::int64_t i, std::int64_t j) { return std::max(with_bias(i, j), 0.0); });
  multiply_rounded(product.a, product.b, c, {.accumulate = true});
  expect_exact(product, c, 2e-6, [&](std::int64_t i, std::int64_t j) {
    return with_bias(i, j) + product.exact(i, j);
  });
  Tensor rounded = product.c(DType::bfloat16);
  rounded.fill(3);
  multiply_rounded(product.a, product.b, rounded, {.bias = bias, .accumulate = true});
  expect_exact(product, rounded.to(DType::float32), 0x1p-8,
               [&](std::int64_t i, std::int64_t j) { return with_bias(i, j) + 3; });
}

TEST(RoundedProduct, MultipliesBlocksOfLargerMatrices) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "products of bfloat16 need AVX512_BF16 or AMX";
  for (const auto& [m, n, k] : {std::array{16, 32, 64}, std::array{5, 3, 33}, std::array{64, 1, 1}})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        const Product product(m, n, k, ta, tb);
        // The same matrices as columns 7 and up of others.
        const auto wider = [](const RoundedMatrix& matrix) {
          const Shape& shape = matrix.values.shape();
          const Tensor wide = Tensor::full({shape[0], shape[1] + 9}, 1e6).to(DType::bfloat16);
          for (std::int64_t i = 0; i < shape[0]; ++i)
            std::copy_n(static_cast<std::uint16_t*>(matrix.values.raw()) + i * shape[1], shape[1],
                        static_cast<std::uint16_t*>(wide.raw()) + i * (shape[1] + 9) + 7);
          return wide;
        };
        const Tensor a = wider(product.a), b = wider(product.b);
        const auto block = [](const Tensor& wide, bool transposed) {
          return RoundedBlock{static_cast<std::uint16_t*>(wide.raw()) + 7, wide.shape()[1],
                              transposed};
        };
        const Tensor c = product.c(DType::float32);
        multiply_rounded_block(m, n, k, block(a, ta), block(b, tb), c.data<float>(), n, 0.5f,
                               false);
        expect_exact(product, c, 1e-6,
                     [&](std::int64_t i, std::int64_t j) { return product.exact(i, j) / 2; });
        multiply_rounded_block(m, n, k, block(a, ta), block(b, tb), c.data<float>(), n, 1, true);
        expect_exact(product, c, 2e-6,
                     [&](std::int64_t i, std::int64_t j) { return product.exact(i, j) * 1.5; });
      }
}

// So an example's result does not depend on its batch, and losses do not depend on threads.
TEST(RoundedProduct, DoesNotDependOnOtherRowsOrThreads) {
  if (!has_bfloat16_products())
    GTEST_SKIP() << "without AVX512_BF16 and AMX products are sgemm's, whose order is not promised";
  for (const std::int64_t k : {33, 256, 1000, 2048, 4096})
    for (const int transposed : {0, 1, 2}) {
      SCOPED_TRACE(fmt::format("{} terms, transposed: {}", k, transposed));
      const Product product(200, 100, k, transposed == 1, transposed == 2);
      set_cpu_threads(1);
      const Tensor whole = product.c(DType::float32);
      multiply_rounded(product.a, product.b, whole);
      for (const int threads : {1, 2, 3, 4, 16})
        for (const std::int64_t rows : {1, 16, 33, 100, 200}) {
          if (transposed == 1 && rows < 200) continue;  // a part of the columns is no matrix
          set_cpu_threads(threads);
          const Tensor part = Tensor::empty({rows, 100});
          multiply_rounded(
              transposed == 1 ? product.a : RoundedMatrix{product.a.values.slice(0, rows)},
              product.b, part);
          EXPECT_EQ(std::memcmp(part.raw(), whole.raw(), part.bytes()), 0)
              << rows << " rows, " << threads << " threads";
        }
      set_cpu_threads(1);
    }
}

TEST(RoundedProduct, RefusesMatricesThatDoNotFit) {
  const Product product(3, 4, 5, false, false);
  EXPECT_THROW(multiply_rounded(product.a, product.b, Tensor::empty({4, 3})), Error);
  EXPECT_THROW(multiply_rounded(product.b, product.a, Tensor::empty({5, 5})), Error);
}

// c = a b by multiply_pairs(): the terms of a's rows lie side by side, or, with `across`, a's rows
// do.
std::vector<float> product_of_pairs(const std::vector<std::uint16_t>& a,
                                    const std::vector<std::uint16_t>& b, std::int64_t m,
                                    std::int64_t n, std::int64_t pairs, bool across,
                                    std::vector<float> c = {}) {
  const bool accumulate = !c.empty();
  const std::int64_t step = n + 16;
  c.resize(static_cast<std::size_t>(m * step), -1);
  multiply_pairs({.m = m,
                  .n = n,
                  .pairs = pairs,
                  .a = a.data(),
                  .a_row = across ? 2 : 2 * pairs,
                  .a_pair = across ? 2 * m : 2,
                  .b = b.data(),
                  .b_pair = 2 * n,
                  .c = c.data(),
                  .c_step = step,
                  .accumulate = accumulate});
  return c;
}

TEST(PairProduct, HasSumsOfPairsInAnyShape) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "products of bfloat16 need AVX512_BF16 or AMX";
  const auto numbers = [](std::int64_t count, std::uint64_t seed) {
    const Tensor values = random_tensor({count}, seed).to(DType::bfloat16);
    const auto* const begin = static_cast<const std::uint16_t*>(values.raw());
    return std::vector(begin, begin + count);
  };
  for (const std::int64_t m : {1, 2, 3, 5, 6, 16, 23})
    for (const std::int64_t n : {16, 32, 48, 64, 112})
      for (const std::int64_t pairs : {1, 7, 40})
        for (const bool across : {false, true}) {
          SCOPED_TRACE(fmt::format("{} x {} x {} across {}", m, n, 2 * pairs, across));
          const auto a = numbers(m * 2 * pairs, 1), b = numbers(n * 2 * pairs, 2);
          const auto once = product_of_pairs(a, b, m, n, pairs, across),
                     twice = product_of_pairs(a, b, m, n, pairs, across, once);
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              double expected = 0;
              for (std::int64_t k = 0; k < 2 * pairs; ++k) {
                const std::int64_t p = k / 2, half = k % 2;
                const std::int64_t left = across ? (p * m + i) * 2 + half : i * 2 * pairs + k;
                const std::int64_t right = (p * n + j) * 2 + half;
                expected +=
                    static_cast<double>(float_from_bfloat16(a[static_cast<std::size_t>(left)])) *
                    static_cast<double>(float_from_bfloat16(b[static_cast<std::size_t>(right)]));
              }
              const auto at = static_cast<std::size_t>(i * (n + 16) + j);
              ASSERT_NEAR(static_cast<double>(once[at]), expected, 1e-5) << i << ", " << j;
              ASSERT_NEAR(static_cast<double>(twice[at]), 2 * expected, 2e-5) << i << ", " << j;
            }
            // Between the rows of c nothing is written.
            for (std::int64_t j = n; j < n + 16; ++j)
              ASSERT_EQ(twice[static_cast<std::size_t>(i * (n + 16) + j)], -1);
          }
        }
}

TEST(PairProduct, HasSumsThatDoNotDependOnOtherRows) {
  if (!has_bfloat16_products()) GTEST_SKIP() << "products of bfloat16 need AVX512_BF16 or AMX";
  constexpr std::int64_t n = 80, pairs = 50, m = 13;
  const Tensor left = random_tensor({m * 2 * pairs}, 1).to(DType::bfloat16),
               right = random_tensor({n * 2 * pairs}, 2).to(DType::bfloat16);
  const auto* const a = static_cast<const std::uint16_t*>(left.raw());
  const auto* const b = static_cast<const std::uint16_t*>(right.raw());
  const std::vector columns(b, b + n * 2 * pairs);
  const auto all = product_of_pairs({a, a + m * 2 * pairs}, columns, m, n, pairs, false);
  for (std::int64_t i = 0; i < m; ++i) {
    const auto* const row = a + i * 2 * pairs;
    const auto alone = product_of_pairs({row, row + 2 * pairs}, columns, 1, n, pairs, false);
    EXPECT_TRUE(std::equal(alone.begin(), alone.begin() + n, all.begin() + i * (n + 16))) << i;
  }
}

}  // namespace
}  // namespace tasuki
