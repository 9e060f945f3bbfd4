// Normalisation and softmax, as reference_check.hpp says.
#include <gtest/gtest.h>

#include <cmath>

#include "nn/functions/activation.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "reference_check.hpp"
#include "tensor/backend.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

TEST(NormalizationReference, Softmax) {
  check_file("softmax", [](const Inputs& in, const ReferenceCase& test) {
    const int axis = test.options["axis"];
    return test.name == "softmax" ? F::softmax(in.at("x"), axis) : F::log_softmax(in.at("x"), axis);
  });
}

TEST(NormalizationReference, LayerAndGroupNorm) {
  check_file("normalization", [](const Inputs& in, const ReferenceCase& test) {
    const float eps = test.options["eps"];
    if (test.name == "layer_norm")
      return F::layer_norm(in.at("x"), in.at("gamma"), in.at("beta"), eps);
    return F::group_norm(in.at("x"), test.options["groups"], in.at("gamma"), in.at("beta"), eps);
  });
}

TEST(Softmax, CountsNegativeAxesFromTheLast) {
  const Variable x(testing::random_tensor({2, 3, 4}, 5));
  EXPECT_EQ(testing::relative_error(F::softmax(x, -2).value(), F::softmax(x, 1).value()), 0);
  EXPECT_THROW(F::softmax(x, 3), Error);
  EXPECT_THROW(F::softmax(x, -4), Error);
}

TEST(Softmax, DoesNotOverflowForLargeScores) {
  const std::array<float, 3> scores = {1e4f, 0, -1e4f};
  const Variable x(Tensor::from(std::span<const float>(scores), {1, 3}));
  EXPECT_EQ(F::softmax(x).value().span<float>()[0], 1);
  EXPECT_EQ(F::log_softmax(x).value().span<float>()[2], -2e4f);
}

TEST(LayerNorm, TakesItsSizeFromTheFirstInput) {
  LayerNorm layer;
  layer(Variable(testing::random_tensor({2, 5}, 1)));
  ASSERT_EQ(layer.parameters().size(), 2U);
  EXPECT_EQ(layer.parameters()[0].path, "gamma");
  EXPECT_EQ(layer.parameters()[0].parameter->shape(), Shape{5});
  EXPECT_THROW(layer(Variable(testing::random_tensor({2, 6}, 1))), Error);
}

// The mean is subtracted before anything is multiplied.
TEST(GroupNorm, KeepsPrecisionForLargeMeans) {
  Tensor x = testing::random_tensor({2, 4, 3, 5}, 2);
  for (float& value : x.span<float>()) value += 5000;
  const Tensor gamma = testing::random_tensor({4}, 3), beta = testing::random_tensor({4}, 4);
  const Tensor y = F::group_norm(Variable(x), 2, Variable(gamma), Variable(beta), 1e-5f).value();
  constexpr std::int64_t of_group = 30, of_channel = 15;
  for (std::int64_t group = 0; group < 4; ++group) {
    const auto values = x.span<float>().subspan(group * of_group, of_group);
    double mean = 0, squares = 0;
    for (const float value : values) mean += value / double{of_group};
    for (const float value : values) squares += (value - mean) * (value - mean);
    const double deviation = std::sqrt(squares / of_group + 1e-5);
    for (std::int64_t i = 0; i < of_group; ++i) {
      const std::int64_t c = group % 2 * 2 + i / of_channel;
      const double expected =
          gamma.data<float>()[c] * (values[i] - mean) / deviation + beta.data<float>()[c];
      // The mean itself is a float here.
      EXPECT_NEAR(y.data<float>()[group * of_group + i], expected, 3e-4 / deviation);
    }
  }
}

TEST(GroupNorm, RejectsChannelsNotDivisibleByGroups) {
  GroupNorm layer(4, 6);
  EXPECT_THROW(layer(Variable(testing::random_tensor({2, 6, 3}, 1))), Error);
}

TEST(LayerNorm, GivesTheSameGradientsForAnyNumberOfThreads) {
  const Tensor x = testing::random_tensor({533, 96}, 3),
               upstream = testing::random_tensor({533, 96}, 4);
  const auto gradient = [&](int threads) {
    set_cpu_threads(threads);
    const Variable gamma(Tensor::full({96}, 1), true), beta(Tensor::zeros({96}), true);
    testing::weighted_sum(F::layer_norm(Variable(x), gamma, beta), upstream).backward();
    set_cpu_threads(1);
    return gamma.grad().clone();
  };
  EXPECT_EQ(testing::relative_error(gradient(3), gradient(1)), 0);
}

}  // namespace
}  // namespace tasuki
