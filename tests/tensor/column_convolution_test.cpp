// Convolutions by columns, with products of the processor and by emulated tiles.
#include "tensor/cpu/column_convolution.hpp"

#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "rounded_convolution.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/tile_product.hpp"
#include "tests/support/orders.hpp"
#include "tile_emulation.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::cpu;
using testing::distance;
using testing::random_tensor;

constexpr OwnConvolution by_columns = {column_conv2d, column_conv2d_backward_data,
                                       column_conv2d_backward_weights};

class ColumnConvolution : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_instructions(dnnl::cpu_isa::avx512_core))
      GTEST_SKIP() << "oneDNN reorders images of bfloat16 with AVX-512 only";
    if (GetParam()) emulation_.emplace();
    if (!has_bfloat16_products()) GTEST_SKIP() << "products of bfloat16 need AVX512_BF16 or AMX";
  }
  ~ColumnConvolution() override {
    set_conv_algorithm(ConvAlgorithm::fastest);
    set_cpu_threads(1);
  }

 private:
  std::optional<testing::EmulatedTiles> emulation_;
};

INSTANTIATE_TEST_SUITE_P(, ColumnConvolution, ::testing::Bool(), [](const auto& info) {
  return info.param ? "ByEmulatedTiles" : "OfTheProcessor";
});

TEST_P(ColumnConvolution, MatchesItsDefinition) {
  const testing::ConvolutionProblem problems[] = {
      {{3, 20, 13, 13}, {50, 20, 5, 5}, {}},
      {{2, 5, 7, 8}, {6, 5, 3, 3}, {1, 1, 1, 1, 1, 1, 1}},
      {{2, 6, 9, 7}, {33, 6, 3, 3}, {2, 1, 1, 0, 1, 1, 1}},
      {{1, 9, 9, 9}, {6, 9, 3, 2}, {1, 1, 2, 1, 2, 3, 1}},
      {{1, 5, 1, 1}, {1, 5, 1, 1}, {}},
      {{3, 17, 4, 5}, {33, 17, 1, 1}, {}},
      // Full blocks of results, of inputs.
      {{2, 20, 6, 6}, {32, 20, 3, 3}, {1, 1, 1, 1, 1, 1, 1}},
      {{2, 32, 6, 6}, {20, 32, 3, 3}, {1, 1, 2, 2, 1, 1, 1}},
      // Pixels that no window covers.
      {{2, 7, 8, 8}, {10, 7, 2, 2}, {3, 3, 0, 0, 1, 1, 1}},
      // Full blocks, with strides.
      {{3, 32, 9, 8}, {64, 32, 4, 4}, {2, 2, 1, 1, 1, 1, 1}},
      // Long sums over pixels; gradients of many weights, in one group.
      {{2, 96, 8, 8}, {160, 96, 12, 12}, {2, 2, 3, 3, 1, 1, 1}},
      {{1, 5, 40, 41}, {6, 5, 1, 1}, {}},
      // More images than groups of them, and more lines than are computed at once.
      {{37, 5, 6, 7}, {13, 5, 3, 2}, {2, 1, 1, 1, 1, 2, 1}},
      {{2, 40, 30, 30}, {24, 40, 5, 5}, {1, 1, 2, 2, 1, 1, 1}},
  };
  for (const testing::ConvolutionProblem& p : problems) check_definition(by_columns, p);
}

// Whatever order the layers before and after leave images in.
TEST_P(ColumnConvolution, AcceptsEveryOrder) {
  const ConvolutionGeometry geometry({2, 20, 6, 5}, {24, 20, 3, 3}, {1, 1, 1, 1, 1, 1, 1});
  const Tensor x = random_tensor(geometry.x, 1).to(DType::bfloat16),
               w = random_tensor(geometry.w, 2),
               dy = random_tensor(geometry.y, 3).to(DType::bfloat16);
  const Tensor y = column_conv2d(geometry, x, w, {}),
               dx = column_conv2d_backward_data(geometry, dy, w),
               dw = column_conv2d_backward_weights(geometry, x, dy);
  EXPECT_EQ(y.layout(), layout_of(channels_last(geometry.y)));
  for (const testing::Order& order : testing::every_order) {
    SCOPED_TRACE(order.name);
    const Tensor ordered = in_order(x, order), slopes = in_order(dy, order);
    EXPECT_EQ(distance(column_conv2d(geometry, ordered, w, {}), y), 0);
    EXPECT_EQ(distance(column_conv2d_backward_data(geometry, slopes, w), dx), 0);
    EXPECT_EQ(distance(column_conv2d_backward_weights(geometry, ordered, slopes), dw), 0);
  }
}

TEST_P(ColumnConvolution, MayPayWhereChannelsDoNotFillBlocks) {
  const auto may_pay = [](std::int64_t in, std::int64_t out, std::int64_t groups = 1) {
    return columns_may_pay({{8, in, 9, 9}, {out, in / groups, 3, 3}, {1, 1, 0, 0, 1, 1, groups}});
  };
  EXPECT_TRUE(may_pay(20, 50));
  EXPECT_TRUE(may_pay(24, 96));
  EXPECT_FALSE(may_pay(3, 50)) << "colours";
  EXPECT_FALSE(may_pay(20, 50, 2)) << "groups";
  EXPECT_FALSE(may_pay(64, 64));
  EXPECT_FALSE(may_pay(30, 64)) << "little is left to padding";
}

TEST_P(ColumnConvolution, IsTakenByShape) {
  set_conv_algorithm(ConvAlgorithm::by_shape);
  const ConvolutionGeometry geometry({3, 20, 13, 13}, {50, 20, 5, 5}, {});
  const Tensor x = random_tensor(geometry.x, 1).to(DType::bfloat16),
               w = random_tensor(geometry.w, 2),
               dy = random_tensor(geometry.y, 3).to(DType::bfloat16),
               dw = Tensor::empty(geometry.w);
  const Tensor y = cpu().conv2d(x, w, {}, geometry.options);
  EXPECT_EQ(y.layout(), layout_of(channels_last(geometry.y))) << "computed in another way";
  EXPECT_EQ(distance(y, column_conv2d(geometry, x, w, {})), 0);
  EXPECT_EQ(distance(cpu().conv2d_backward_data(dy, w, geometry.x, geometry.options),
                     column_conv2d_backward_data(geometry, dy, w)),
            0);
  cpu().conv2d_backward_weights(x, dy, dw, geometry.options, false);
  EXPECT_EQ(distance(dw, column_conv2d_backward_weights(geometry, x, dy)), 0);
}

// Images of few colours are widened to float32 and interleaved.
TEST_P(ColumnConvolution, FewColoursGiveTheSameResultsInEitherType) {
  set_conv_algorithm(ConvAlgorithm::interleaved);
  for (const std::int64_t in : {1, 3, 4}) {
    const Conv2dOptions options{1, 1, 1, 1, 1, 1, 1};
    const auto rounded = [](const Shape& shape, std::uint64_t seed) {
      return random_tensor(shape, seed).to(DType::bfloat16);
    };
    const Tensor x = rounded({18, in, 9, 9}, 1), w = rounded({20, in, 3, 3}, 2),
                 dy = rounded({18, 20, 9, 9}, 3), b = random_tensor({20}, 4);
    const auto results = [&](DType type) {
      const Tensor dw = Tensor::empty(w.shape()), filters = w.to(type);
      cpu().conv2d_backward_weights(x.to(type), dy.to(type), dw, options, false);
      return std::array{cpu().conv2d(x.to(type), filters, b, options),
                        cpu().conv2d_backward_data(dy.to(type), filters, x.shape(), options), dw};
    };
    const auto expected = results(DType::float32), found = results(DType::bfloat16);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_LT(distance(found[i], expected[i]), i == 2 ? 1e-5f : 0x1p-8f) << in << ", " << i;
  }
}

}  // namespace
}  // namespace tasuki
