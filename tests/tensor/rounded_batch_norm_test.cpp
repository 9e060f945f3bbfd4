// Batch normalisation of bfloat16 in blocks against sums in double.
#include "tensor/cpu/rounded_batch_norm.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <vector>

#include "tensor/backend.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tests/support/orders.hpp"
#include "values.hpp"

namespace tasuki {
namespace {

using testing::cpu;
using testing::random_tensor;

class RoundedBatchNorm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_bfloat16_products()) GTEST_SKIP() << "it needs AVX512_BF16 or AMX";
  }
  ~RoundedBatchNorm() override { set_cpu_threads(1); }

  static Tensor blocks(const Tensor& x) {
    return in_order(
        x.to(DType::bfloat16),
        *std::ranges::find(testing::every_order, std::string_view("blocks of 16 channels"),
                           &testing::Order::name));
  }
};

TEST_F(RoundedBatchNorm, MatchesItsDefinition) {
  constexpr double eps = 1e-5;
  for (const Shape& shape : {Shape{3, 32, 5, 7}, Shape{1, 16, 1, 2}, Shape{20, 16, 9, 3}})
    for (const bool relu : {false, true})
      // Far from 0 sums of squares would leave nothing of the variance.
      for (const float offset : {0.0f, 100.0f}) {
        SCOPED_TRACE(fmt::format("{}, relu {}, offset {}", shape.text(), relu, offset));
        const Tensor values = random_tensor(shape, 1);
        for (std::int64_t i = 0; i < values.count(); ++i) values.data<float>()[i] += offset;
        const Tensor x = blocks(values), slopes = random_tensor(shape, 2).to(DType::bfloat16);
        ASSERT_TRUE(can_use_rounded_batch_norm(x));
        const std::int64_t channels = shape[1], pixels = shape[2] * shape[3];
        const RoundedNorm norm = {random_tensor({channels}, 3), random_tensor({channels}, 4),
                                  static_cast<float>(eps), relu};
        const Tensor mean = Tensor::empty({channels}), variance = Tensor::empty({channels});
        const Tensor y = rounded_batch_norm(x, norm, mean, variance).plain().to(DType::float32);
        const Tensor dgamma = Tensor::empty({channels}), dbeta = Tensor::empty({channels});
        const Tensor dx =
            rounded_batch_norm_backward(x, slopes, norm, mean, variance, dgamma, dbeta)
                .plain()
                .to(DType::float32);
        const Tensor rounded = x.plain().to(DType::float32), dy = slopes.to(DType::float32);
        const auto count = static_cast<double>(shape[0] * pixels);
        for (std::int64_t c = 0; c < channels; ++c) {
          const auto visit = [&](const auto& body) {
            for (std::int64_t n = 0; n < shape[0]; ++n)
              for (std::int64_t i = 0; i < pixels; ++i) body((n * channels + c) * pixels + i);
          };
          const auto at = [](const Tensor& tensor, std::int64_t i) {
            return static_cast<double>(tensor.data<float>()[i]);
          };
          double sum = 0, squares = 0;
          visit([&](std::int64_t i) { sum += at(rounded, i); });
          visit([&](std::int64_t i) { squares += std::pow(at(rounded, i) - sum / count, 2); });
          ASSERT_NEAR(at(mean, c), sum / count, 1e-5 * (1 + std::abs(sum / count)));
          ASSERT_NEAR(at(variance, c), squares / count, 1e-5 * (1 + squares / count));
          const double deviation = std::sqrt(at(variance, c) + eps);
          const auto normalised = [&](std::int64_t i) {
            return (at(rounded, i) - at(mean, c)) / deviation;
          };
          const auto result = [&](std::int64_t i) {
            return normalised(i) * at(norm.gamma, c) + at(norm.beta, c);
          };
          double slope = 0, product = 0, most = 0;
          bool is_close = false;  // to where ReLU's slope jumps
          visit([&](std::int64_t i) {
            const double value = result(i), expected = relu ? std::max(value, 0.0) : value;
            ASSERT_NEAR(at(y, i), expected, 0x1p-7 * (1 + std::abs(value)));
            is_close |= relu && std::abs(value) < 1e-3;
            const double upstream = relu && value <= 0 ? 0 : at(dy, i);
            slope += upstream;
            product += upstream * normalised(i);
            most = std::max(most, std::abs(at(norm.gamma, c)) / deviation);
          });
          if (is_close) continue;
          ASSERT_NEAR(at(dbeta, c), slope, 1e-4 * (1 + std::abs(slope)));
          ASSERT_NEAR(at(dgamma, c), product, 1e-3 * (1 + std::abs(product)));
          visit([&](std::int64_t i) {
            const double upstream = relu && result(i) <= 0 ? 0 : at(dy, i);
            const double expected = at(norm.gamma, c) / deviation *
                                    (upstream - slope / count - normalised(i) * product / count);
            ASSERT_NEAR(at(dx, i), expected, 0x1p-6 * most);
          });
        }
      }
}

// ReLU lets nothing through where the mean is, whatever the numbers are.
TEST_F(RoundedBatchNorm, LeavesNothingOfAConstantChannel) {
  for (const float value : {0.0f, 81.0f, 1296.0f}) {
    const Tensor x = blocks(Tensor::full({2, 16, 3, 3}, value));
    const RoundedNorm norm = {Tensor::full({16}, 1.3f), Tensor::zeros({16}), 1e-5f, true};
    const Tensor mean = Tensor::empty({16}), variance = Tensor::empty({16});
    const Tensor y = rounded_batch_norm(x, norm, mean, variance).plain().to(DType::float32);
    const Tensor dgamma = Tensor::empty({16}), dbeta = Tensor::empty({16});
    const Tensor slopes = Tensor::full({2, 16, 3, 3}, 1).to(DType::bfloat16);
    rounded_batch_norm_backward(x, slopes, norm, mean, variance, dgamma, dbeta);
    for (std::int64_t i = 0; i < y.count(); ++i) ASSERT_EQ(y.data<float>()[i], 0) << value;
    for (std::int64_t c = 0; c < 16; ++c) ASSERT_EQ(dbeta.data<float>()[c], 0) << value;
  }
}

TEST_F(RoundedBatchNorm, HasTheSameBitsWithAnyNumberOfThreads) {
  const Tensor x = blocks(random_tensor({16, 64, 16, 16}, 1));
  const RoundedNorm norm = {random_tensor({64}, 3), random_tensor({64}, 4), 1e-5f, true};
  const auto results = [&](int threads) {
    set_cpu_threads(threads);
    std::vector<Tensor> all = {Tensor::empty({64}), Tensor::empty({64}), Tensor::empty({64}),
                               Tensor::empty({64})};
    all.push_back(rounded_batch_norm(x, norm, all[0], all[1]));
    all.push_back(rounded_batch_norm_backward(x, x, norm, all[0], all[1], all[2], all[3]));
    return all;
  };
  const auto expected = results(1);
  for (const int threads : {2, 3, 4}) {
    const auto found = results(threads);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(std::memcmp(found[i].raw(), expected[i].raw(), expected[i].bytes()), 0)
          << threads << " threads, " << i;
  }
}

TEST_F(RoundedBatchNorm, IsForBlocksOfBfloat16) {
  const Tensor x = random_tensor({2, 16, 3, 3}, 1);
  EXPECT_TRUE(can_use_rounded_batch_norm(blocks(x)));
  EXPECT_FALSE(can_use_rounded_batch_norm(x)) << "float32";
  EXPECT_FALSE(can_use_rounded_batch_norm(x.to(DType::bfloat16))) << "plain";
  EXPECT_FALSE(can_use_rounded_batch_norm(random_tensor({2, 16}, 1).to(DType::bfloat16)));
}

}  // namespace
}  // namespace tasuki
