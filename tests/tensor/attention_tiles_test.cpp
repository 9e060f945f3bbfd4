// Attention of bfloat16 by tiles, of any length, against sums in double.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <vector>

#include "tensor/attention_operations.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/tile_product.hpp"
#include "tile_emulation.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::cpu;
using testing::distance;
using testing::random_tensor;

// Kernels in plain loops, which count their products.
class AttentionByTiles : public ::testing::Test {
 protected:
  AttentionByTiles() {
    static TileKernels counting = testing::tile_emulation;
    counting.begin = [] {
      ++products;
      testing::tile_emulation.begin();
    };
    set_tile_kernels(&counting);
    products = 0;
  }
  ~AttentionByTiles() override { set_tile_kernels(found_); }

  static inline std::atomic<int> products = 0;

 private:
  const TileKernels* found_ = tile_kernels();
};

// q, k and v of N x T x W each side by side, as is the result with their gradients.
struct AttentionDefinition {
  std::int64_t items, rows, heads, width;
  bool causal;
  std::vector<std::int64_t> lengths;
  std::vector<float> x, dy;
  std::vector<double> y, dx;

  std::int64_t wide() const { return heads * width; }
  std::size_t at(std::int64_t item, std::int64_t row, std::int64_t part,
                 std::int64_t column) const {
    return static_cast<std::size_t>((item * rows + row) * 3 * wide() + part * wide() + column);
  }
  std::size_t y_at(std::int64_t item, std::int64_t row, std::int64_t column) const {
    return static_cast<std::size_t>((item * rows + row) * wide() + column);
  }

  void compute() {
    y.assign(dy.size(), 0);
    dx.assign(x.size(), 0);
    for (std::int64_t item = 0; item < items; ++item)
      for (std::int64_t head = 0; head < heads; ++head)
        for (std::int64_t row = 0; row < (causal ? length(item) : rows); ++row)
          compute_row(item, head * width, row);
  }
  std::int64_t length(std::int64_t item) const { return lengths[static_cast<std::size_t>(item)]; }

  void compute_row(std::int64_t item, std::int64_t first, std::int64_t row) {
    const std::int64_t seen = causal ? row + 1 : length(item);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    const auto value = [&](std::int64_t r, std::int64_t part, std::int64_t c) {
      return static_cast<double>(x[at(item, r, part, first + c)]);
    };
    std::vector<double> weights(static_cast<std::size_t>(seen)), slopes(weights.size());
    double sum = 0, mean = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      double score = 0;
      for (std::int64_t c = 0; c < width; ++c) score += value(row, 0, c) * value(j, 1, c);
      sum += weights[static_cast<std::size_t>(j)] = std::exp(scale * score);
    }
    for (std::int64_t j = 0; j < seen; ++j) {
      const auto key = static_cast<std::size_t>(j);
      weights[key] /= sum;
      for (std::int64_t c = 0; c < width; ++c) {
        const auto d = static_cast<double>(dy[y_at(item, row, first + c)]);
        y[y_at(item, row, first + c)] += weights[key] * value(j, 2, c);
        dx[at(item, j, 2, first + c)] += weights[key] * d;
        slopes[key] += d * value(j, 2, c);
      }
      mean += weights[key] * slopes[key];
    }
    for (std::int64_t j = 0; j < seen; ++j) {
      const auto key = static_cast<std::size_t>(j);
      const double slope = scale * weights[key] * (slopes[key] - mean);
      for (std::int64_t c = 0; c < width; ++c) {
        dx[at(item, row, 0, first + c)] += slope * value(j, 1, c);
        dx[at(item, j, 1, first + c)] += slope * value(row, 0, c);
      }
    }
  }
};

Tensor tensor_of(const std::vector<double>& values, const Shape& shape) {
  const std::vector<float> rounded(values.begin(), values.end());
  return Tensor::from(std::span(rounded), shape);
}

TEST_F(AttentionByTiles, OfAnyLengthIsThatOfDoubles) {
  for (const std::int64_t rows : {1, 3, 33, 100, 300})
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(fmt::format("{} rows, causal {}", rows, causal));
      const Shape shape{2, rows, 3 * 2 * 20}, of_y{2, rows, 2 * 20};
      const Tensor x = random_tensor(shape, 1).to(DType::bfloat16);
      const Tensor dy = random_tensor(of_y, 2).to(DType::bfloat16);
      AttentionDefinition expected{2,
                                   rows,
                                   2,
                                   20,
                                   causal,
                                   {rows, (rows + 1) / 2},
                                   testing::values_of(x),
                                   testing::values_of(dy),
                                   {},
                                   {}};
      expected.compute();

      const std::int64_t wide = 40;
      const AttentionOptions options{
          .heads = 2,
          .head_width = 20,
          .scale = 1 / std::sqrt(20.0f),
          .causal = causal,
          .lengths = Tensor::from(std::span<const std::int64_t>(expected.lengths), {2})};
      const HeadColumns q{x, 0}, k{x, wide}, v{x, 2 * wide};
      products = 0;
      const AttentionResult found = cpu().attention().attention(q, k, v, options);
      EXPECT_GE(products, 2 * 2 * 2) << "of scores and values of each head";
      EXPECT_LE(distance(found.y, tensor_of(expected.y, of_y)), 1e-2);
      const Tensor dx = Tensor::empty(shape, DType::bfloat16);
      products = 0;
      cpu().attention().attention_gradient(q, k, v, found, dy, options, {dx, 0}, {dx, wide},
                                           {dx, 2 * wide});
      EXPECT_GE(products, 2 * 2 * 5);
      EXPECT_LE(distance(dx, tensor_of(expected.dx, shape)), 1e-2);
    }
}

}  // namespace
}  // namespace tasuki
