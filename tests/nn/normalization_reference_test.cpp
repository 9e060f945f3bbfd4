// Normalisation and softmax, as reference_check.hpp says.
#include <gtest/gtest.h>

#include "reference_check.hpp"
#include "tasuki/nn/functions/normalization.hpp"
#include "tasuki/nn/functions/softmax.hpp"
#include "tasuki/nn/normalization.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

using testing::check_file;
using testing::Inputs;
using testing::ReferenceCase;

TEST(NormalizationReference, Softmax) {
  check_file("softmax", [](const Inputs& in, const ReferenceCase& test) {
    const int axis = test.options["axis"];
    return test.name == "softmax" ? softmax(in.at("x"), axis) : log_softmax(in.at("x"), axis);
  });
}

TEST(NormalizationReference, LayersAndGroups) {
  check_file("normalization", [](const Inputs& in, const ReferenceCase& test) {
    const float eps = test.options["eps"];
    if (test.name == "layer_norm")
      return layer_norm(in.at("x"), in.at("gamma"), in.at("beta"), eps);
    return group_norm(in.at("x"), test.options["groups"], in.at("gamma"), in.at("beta"), eps);
  });
}

TEST(Softmax, NegativeAxesCountFromTheLast) {
  const Variable x(testing::random_tensor({2, 3, 4}, 5));
  EXPECT_EQ(testing::relative_error(softmax(x, -2).value(), softmax(x, 1).value()), 0);
  EXPECT_THROW(softmax(x, 3), Error);
  EXPECT_THROW(softmax(x, -4), Error);
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  const std::array<float, 3> scores = {1e4f, 0, -1e4f};
  const Variable x(Tensor::from(std::span<const float>(scores), {1, 3}));
  EXPECT_EQ(softmax(x).value().span<float>()[0], 1);
  EXPECT_EQ(log_softmax(x).value().span<float>()[2], -2e4f);
}

TEST(LayerNorm, TakesItsSizeFromTheFirstInput) {
  LayerNorm layer;
  layer(Variable(testing::random_tensor({2, 5}, 1)));
  ASSERT_EQ(layer.parameters().size(), 2U);
  EXPECT_EQ(layer.parameters()[0].path, "gamma");
  EXPECT_EQ(layer.parameters()[0].parameter->shape(), Shape{5});
  EXPECT_THROW(layer(Variable(testing::random_tensor({2, 6}, 1))), Error);
}

TEST(GroupNorm, RefusesChannelsThatGroupsDoNotDivide) {
  GroupNorm layer(4, 6);
  EXPECT_THROW(layer(Variable(testing::random_tensor({2, 6, 3}, 1))), Error);
}

TEST(LayerNorm, GradientsOfParametersDoNotDependOnThreads) {
  const Tensor x = testing::random_tensor({533, 96}, 3),
               upstream = testing::random_tensor({533, 96}, 4);
  const auto gradient = [&](int threads) {
    set_cpu_threads(threads);
    const Variable gamma(Tensor::full({96}, 1), true), beta(Tensor::zeros({96}), true);
    testing::weighted_sum(layer_norm(Variable(x), gamma, beta), upstream).backward();
    set_cpu_threads(1);
    return gamma.grad().clone();
  };
  EXPECT_EQ(testing::relative_error(gradient(3), gradient(1)), 0);
}

}  // namespace
}  // namespace tasuki
