// Average pooling of bfloat16 with channels side by side against that of float32 in plain order.
#include "tensor/cpu/rounded_pooling.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::cpu;
using testing::distance;
using testing::random_tensor;
using testing::values_of;

class RoundedPooling : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_bfloat16_products())
      GTEST_SKIP() << "oneDNN reorders images of bfloat16 with AVX512_BF16 or AMX only";
  }
  ~RoundedPooling() override { set_cpu_threads(1); }
};

Pool2dOptions averages(std::int64_t kernel_h, std::int64_t kernel_w, std::int64_t stride,
                       std::int64_t pad) {
  return {PoolKind::average, kernel_h, kernel_w, stride, stride, pad, pad, false};
}

void check(const Tensor& x, const Pool2dOptions& options, bool relu) {
  SCOPED_TRACE(fmt::format("{}, window {}x{}, stride {}, padding {}, ReLU {}", x.shape().text(),
                           options.kernel_h, options.kernel_w, options.stride_h, options.pad_h,
                           relu));
  ASSERT_TRUE(can_average_rounded(x));
  const Tensor exact = x.plain().to(DType::float32);
  std::shared_ptr<Workspace> kept[2];
  const auto pooled = [&](const Tensor& from, std::shared_ptr<Workspace>& workspace) {
    return relu ? cpu().relu_pool2d(from, options, &workspace)
                : cpu().pool2d(from, options, &workspace);
  };
  const Tensor y = pooled(x, kept[0]), expected = pooled(exact, kept[1]);
  EXPECT_LT(distance(y, expected), 0x1p-8f);
  const Tensor dy = random_tensor(y.shape(), 2).to(DType::bfloat16);
  const auto gradient = [&](const Tensor& slopes, const Workspace* workspace) {
    return relu ? cpu().relu_pool2d_backward(slopes, x.shape(), options, workspace)
                : cpu().pool2d_backward(slopes, x.shape(), options, workspace);
  };
  const Tensor dx = gradient(dy, kept[0].get());
  EXPECT_EQ(dx.layout(), x.layout());
  EXPECT_LT(distance(dx, gradient(dy.to(DType::float32), kept[1].get())), 0x1p-8f);
  set_cpu_threads(3);
  EXPECT_EQ(distance(pooled(x, kept[0]), y), 0);
  EXPECT_EQ(distance(gradient(dy, kept[0].get()), dx), 0);
  set_cpu_threads(1);
  // What pads a block stays zero: sums over channels read it.
  for (const Tensor& result : {y, dx}) {
    const Tensor bias[2] = {Tensor::empty({x.shape()[1]}), Tensor::empty({x.shape()[1]})};
    cpu().backward_bias(result, bias[0], false);
    cpu().backward_bias(result.plain(), bias[1], false);
    EXPECT_LT(distance(bias[0], bias[1]), 1e-5f);
  }
}

TEST_F(RoundedPooling, MatchesFloat32) {
  // The first is enough for several threads.
  for (const Shape& shape : {Shape{70, 32, 8, 8}, Shape{2, 20, 7, 9}, Shape{1, 3, 1, 5}})
    for (const bool blocked : {true, false}) {
      const Tensor x = reordered(random_tensor(shape, 1).to(DType::bfloat16),
                                 blocked ? channel_blocks(shape) : channels_last(shape));
      for (const bool relu : {false, true}) {
        check(x, averages(shape[2], shape[3], 1, 0), relu);
        check(x, averages(1, 1, 2, 0), relu);
        if (shape[2] == 1) continue;
        check(x, averages(2, 2, 2, 0), relu);
        check(x, averages(2, 2, 2, 1), relu);
        check(x, averages(3, 2, 1, 1), relu);
        check(x, averages(2, 3, 4, 0), relu);
      }
    }
}

TEST_F(RoundedPooling, KeepsWhatIsNoNumber) {
  const Shape shape = {1, 16, 2, 2};
  Tensor values = Tensor::full(shape, -1);
  values.data<float>()[5] = std::numeric_limits<float>::quiet_NaN();  // of channel 1
  const Tensor x = reordered(values.to(DType::bfloat16), channel_blocks(shape));
  std::shared_ptr<Workspace> kept;
  const Tensor y = cpu().relu_pool2d(x, averages(2, 2, 2, 0), &kept);
  const std::vector<float> means = values_of(y);
  EXPECT_EQ(means[0], 0);
  EXPECT_TRUE(std::isnan(means[1]));
  const Tensor dx = cpu().relu_pool2d_backward(Tensor::full(y.shape(), 4).to(DType::bfloat16),
                                               shape, averages(2, 2, 2, 0), kept.get());
  const std::vector<float> slopes = values_of(dx);
  EXPECT_EQ(slopes[4], 0);
  EXPECT_EQ(slopes[5], 1);
}

}  // namespace
}  // namespace tasuki
