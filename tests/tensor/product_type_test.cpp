// Matrix products in bfloat16: near to those in float32, and not the same.
#include <gtest/gtest.h>

#include "core/error.hpp"
#include "tensor/backend.hpp"
#include "tensor/cpu/matrix_product.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::cpu;
using testing::distance;
using testing::random_tensor;

class Products : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      set_cpu_product_type(DType::bfloat16);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override { set_cpu_product_type(DType::float32); }
};

void expect_rounded(const Tensor& rounded, const Tensor& exact) {
  EXPECT_LT(distance(rounded, exact), 1e-2f);
  EXPECT_GT(distance(rounded, exact), 1e-5f) << "not rounded at all";
}

TEST_F(Products, AreCloseToFloat32InLayers) {
  const std::int64_t sizes[][3] = {{100, 784, 1000}, {7, 33, 10}, {1, 5, 3}, {64, 128, 1}};
  for (const auto& [n, i, o] : sizes) {
    SCOPED_TRACE(fmt::format("{} x {} to {}", n, i, o));
    const Tensor x = random_tensor({n, i}, 1), w = random_tensor({o, i}, 2);
    const Tensor b = random_tensor({o}, 3), dy = random_tensor({n, o}, 4);
    const Tensor y = Tensor::empty({n, o}), dx = Tensor::empty({n, i});
    set_cpu_product_type(DType::float32);
    linear_bfloat16(x, w, b, y);
    expect_rounded(y, cpu().linear(x, w, b, false));
    linear_bfloat16(x, w, {}, y);
    expect_rounded(y, cpu().linear(x, w, {}, false));
    linear_bfloat16_backward_data(dy, w, dx);
    expect_rounded(dx, cpu().linear_backward_data(dy, w));
    for (const bool accumulate : {false, true}) {
      const Tensor rounded = Tensor::full({o, i}, 1), exact = Tensor::full({o, i}, 1);
      linear_bfloat16_backward_weights(x, dy, rounded, accumulate);
      cpu().linear_backward_weights(x, dy, exact, accumulate, {});
      expect_rounded(rounded, exact);
    }
  }
}

// Which type is taken is a matter of speed; whichever it is, the result must be right, the first
// time, when both are tried, and later.
TEST_F(Products, AreCorrectWithTheFasterType) {
  const Tensor x = random_tensor({20, 300}, 1), w = random_tensor({50, 300}, 2);
  const Tensor dy = random_tensor({20, 50}, 4);
  for (const char* const turn : {"first", "second"}) {
    SCOPED_TRACE(turn);
    const Tensor dw = Tensor::full(w.shape(), 1), exact = Tensor::full(w.shape(), 1);
    set_cpu_product_type(DType::bfloat16);
    const Tensor y = cpu().linear(x, w, {}, false), dx = cpu().linear_backward_data(dy, w);
    cpu().linear_backward_weights(x, dy, dw, true, {});
    set_cpu_product_type(DType::float32);
    cpu().linear_backward_weights(x, dy, exact, true, {});
    EXPECT_LT(distance(y, cpu().linear(x, w, {}, false)), 1e-2f);
    EXPECT_LT(distance(dx, cpu().linear_backward_data(dy, w)), 1e-2f);
    EXPECT_LT(distance(dw, exact), 1e-2f);
  }
}

TEST_F(Products, MatchFloat32ForEmptyBatches) {
  const Tensor x = Tensor::empty({0, 5}), w = random_tensor({3, 5}, 2), dy = Tensor::empty({0, 3});
  EXPECT_EQ(cpu().linear(x, w, {}, false).shape(), Shape({0, 3}));
  EXPECT_EQ(cpu().linear_backward_data(dy, w).shape(), Shape({0, 5}));
  const Tensor dw = Tensor::full({3, 5}, 1);
  cpu().linear_backward_weights(x, dy, dw, false, {});
  EXPECT_EQ(dw.span<float>()[7], 0);
}

TEST_F(Products, AreCloseToFloat32InConvolutions) {
  const Tensor x = random_tensor({4, 32, 9, 9}, 1), w = random_tensor({48, 32, 3, 3}, 2);
  const Tensor dy = random_tensor({4, 48, 9, 9}, 3);
  const Conv2dOptions same{1, 1, 1, 1, 1, 1, 1};
  Tensor y[2], dx[2], dw[2];
  for (const int i : {0, 1}) {
    set_cpu_product_type(i == 0 ? DType::float32 : DType::bfloat16);
    y[i] = cpu().conv2d(x, w, {}, same);
    dx[i] = cpu().conv2d_backward_data(dy, w, x.shape(), same);
    dw[i] = Tensor::empty(w.shape());
    cpu().conv2d_backward_weights(x, dy, dw[i], same, false);
  }
  EXPECT_LT(distance(y[1], y[0]), 1e-2f);
  EXPECT_LT(distance(dx[1], dx[0]), 1e-2f);
  EXPECT_LT(distance(dw[1], dw[0]), 1e-2f);
}

TEST(ProductType, IsFloat32OrBfloat16) {
  EXPECT_THROW(set_cpu_product_type(DType::float16), Error);
  EXPECT_EQ(cpu_product_type(), DType::float32);
}

}  // namespace
}  // namespace tasuki
