// Sums of products in the order of a tree: the very bits that plain loops have.
#include "tensor/tree_product.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "tensor/cpu/kernel_level.hpp"
#include "tensor/cpu/tree_product_kernels.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::random_tensor;

// Products of different lengths, and how they are added up: ((0 + 1) + 2) + (3 + 4), and others.
struct Case {
  std::vector<std::int64_t> rows;
  std::vector<int> merges;
};
const std::vector<Case> cases{{{1}, {0}},
                              {{50}, {0}},
                              {{13, 12}, {0, 1}},
                              {{3, 1, 70, 2, 5}, {0, 1, 1, 0, 2}},
                              {{4, 4, 4, 4, 4, 4, 4, 4}, {0, 1, 0, 2, 0, 1, 0, 3}}};

// The sum by plain loops.
std::vector<float> sum_by_loops(const std::vector<TreeProduct>& products, std::int64_t m,
                                std::int64_t n, bool is_fused) {
  std::vector<std::vector<float>> stack;
  for (const TreeProduct& product : products) {
    std::vector<float>& sum = stack.emplace_back(m * n, 0.0f);
    for (std::int64_t k = 0; k < product.rows; ++k)
      for (std::int64_t row = 0; row < m; ++row)
        for (std::int64_t column = 0; column < n; ++column) {
          float& element = sum[static_cast<std::size_t>(row * n + column)];
          const float left = product.a[k * m + row], right = product.b[k * n + column];
          element = is_fused ? std::fma(left, right, element) : element + left * right;
        }
    for (int merge = 0; merge < product.merges; ++merge) {
      const std::vector<float> upper = std::move(stack.back());
      stack.pop_back();
      for (std::size_t j = 0; j < upper.size(); ++j) stack.back()[j] += upper[j];
    }
  }
  return stack.front();
}

TEST(TreeProduct, HasTheBitsOfChainsOfFusedAdditions) {
  if (kernel_level() == KernelLevel::baseline)
    GTEST_SKIP() << "this processor has no fused multiply-adds of Tasuki's levels (AVX2, AVX-512)";
  // The last shape is computed in several parts.
  for (const Case& each : cases)
    for (const auto& [m, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {6, 64}, {7, 65}, {5, 100}, {20, 16}, {13, 31}, {25'000, 3}}) {
      std::vector<Tensor> operands;
      std::vector<TreeProduct> products;
      for (std::size_t i = 0; i < each.rows.size(); ++i) {
        for (const std::int64_t columns : {m, n})
          operands.push_back(
              random_tensor({each.rows[i], columns}, static_cast<int>(operands.size())));
        products.push_back({operands[2 * i].data<float>(), operands[2 * i + 1].data<float>(),
                            each.rows[i], each.merges[i]});
      }
      const std::vector<float> expected = sum_by_loops(products, m, n, true);
      const Tensor c = Tensor::full({m * n + 1}, 7);
      multiply_in_tree(products, m, n, c.data<float>());
      EXPECT_EQ(std::memcmp(c.raw(), expected.data(), expected.size() * sizeof(float)), 0)
          << m << " x " << n << ", " << each.rows.size() << " products";
      EXPECT_EQ(c.data<float>()[m * n], 7);
    }
}

// Every level that this processor can stand in for; the baseline may be compiled with or without
// fused additions.
TEST(TreeProduct, AgreesOnEveryProcessor) {
  const Case& each = cases[3];
  for (const TreeKernels* kernels :
       {&tree_kernels_baseline, &tree_kernels_avx2, &tree_kernels_avx512}) {
    // Tables are ordered by what they need.
    if (kernels->width > tree_kernels().width) continue;
    for (std::int64_t vectors = 1; vectors <= kernels->vectors; ++vectors) {
      SCOPED_TRACE(vectors * kernels->width);
      const std::int64_t m = kernels->tile_rows, n = vectors * kernels->width;
      std::vector<TreeProduct> products;
      std::vector<TreeRows> parts;
      const Tensor a = random_tensor({81, m}, 1), b = random_tensor({81, n}, 2);
      std::int64_t row = 0;
      for (std::size_t i = 0; i < each.rows.size(); ++i) {
        products.push_back(
            {a.data<float>() + row * m, b.data<float>() + row * n, each.rows[i], each.merges[i]});
        parts.push_back({each.rows[i], each.merges[i]});
        row += each.rows[i];
      }
      const Tensor waiting = Tensor::empty({4 * m * n}), c = Tensor::empty({m, n});
      kernels->run[vectors - 1]({.products = parts.data(),
                                 .count = static_cast<std::int64_t>(parts.size()),
                                 .a = a.data<float>(),
                                 .b = b.data<float>(),
                                 .waiting = waiting.data<float>(),
                                 .c = c.data<float>(),
                                 .c_step = n});
      const std::vector<float> expected = sum_by_loops(products, m, n, true);
      const bool is_exact = kernels != &tree_kernels_baseline;
      for (std::int64_t i = 0; i < m * n; ++i)
        ASSERT_NEAR(c.data<float>()[i], expected[static_cast<std::size_t>(i)], is_exact ? 0 : 1e-4);
    }
  }
}

TEST(TreeProduct, RefusesWhatIsNoTree) {
  const Tensor x = Tensor::zeros({8});
  const float* const values = x.data<float>();
  float result = 0;
  EXPECT_THROW(multiply_in_tree({}, 1, 1, &result), Error);
  const TreeProduct two_sums[] = {{values, values, 1, 0}, {values, values, 1, 0}};
  EXPECT_THROW(multiply_in_tree(two_sums, 1, 1, &result), Error);
  const TreeProduct one_of_two[] = {{values, values, 1, 1}};
  EXPECT_THROW(multiply_in_tree(one_of_two, 1, 1, &result), Error);
}

}  // namespace
}  // namespace tasuki
