// Functions of arrays where reference cases do not reach: limits, axes of no elements, bad shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "reference.hpp"
#include "tasuki/nn/functions/activation.hpp"
#include "tasuki/nn/functions/math.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Variable vector_of(const std::vector<float>& values) {
  return Variable(
      Tensor::from(std::span<const float>(values), {static_cast<std::int64_t>(values.size())}),
      true);
}

std::vector<float> values_of(const Tensor& x) {
  const Tensor plain = x.plain();
  return {plain.span<float>().begin(), plain.span<float>().end()};
}

// Values and slopes of f at these places.
using Function1 = Variable (*)(const Variable&);
std::pair<std::vector<float>, std::vector<float>> at(const std::vector<float>& places,
                                                     Function1 f) {
  const Variable x = vector_of(places);
  const Variable y = f(x);
  testing::weighted_sum(y, Tensor::full(y.shape(), 1)).backward();
  return {values_of(y.value()), values_of(x.grad())};
}

TEST(ArrayFunctions, ExpAndLogReachTheLimitsOfFloat) {
  const auto [e, de] = at({-infinity, -200, -87, 0, 88.7f, 89, infinity}, exp);
  EXPECT_EQ(e[0], 0);
  EXPECT_EQ(e[1], 0);
  EXPECT_NEAR(e[2] / std::exp(-87.0f), 1, 1e-6);
  EXPECT_EQ(e[3], 1);
  EXPECT_NEAR(e[4] / std::exp(88.7f), 1, 1e-6);
  EXPECT_EQ(e[5], infinity);
  EXPECT_EQ(e[6], infinity);
  EXPECT_EQ(de[3], 1);
  const auto [l, dl] = at({0, 1, infinity, 1e38f, 2e-38f}, log);
  EXPECT_EQ(l[0], -infinity);
  EXPECT_EQ(l[1], 0);
  EXPECT_EQ(l[2], infinity);
  EXPECT_NEAR(l[3], std::log(1e38f), 1e-5);
  EXPECT_NEAR(l[4], std::log(2e-38f), 1e-5);
  EXPECT_EQ(dl[0], infinity);
  const auto nan = at({-1, std::nanf("")}, log).first;
  EXPECT_TRUE(std::isnan(nan[0]) && std::isnan(nan[1]));
  EXPECT_TRUE(std::isnan(at({std::nanf("")}, exp).first[0]));
}

TEST(ArrayFunctions, ActivationsAreLinearFarFromZero) {
  const std::vector<Function1> functions = {[](const Variable& x) { return gelu(x); },
                                            [](const Variable& x) { return gelu(x, true); }, silu,
                                            [](const Variable& x) { return softplus(x); }};
  for (const Function1 f : functions) {
    const auto [y, dy] = at({-1e4f, -150, 150, 1e4f}, f);
    EXPECT_NEAR(y[0], 0, 1e-30);
    EXPECT_NEAR(y[1], 0, 1e-30);
    EXPECT_EQ(y[2], 150);
    EXPECT_EQ(y[3], 1e4f);
    EXPECT_NEAR(dy[0], 0, 1e-30);
    EXPECT_EQ(dy[2], 1);
    EXPECT_EQ(dy[3], 1);
  }
  const auto [y, dy] = at({-1e4f, 1e4f}, [](const Variable& x) { return elu(x); });
  EXPECT_EQ(y, (std::vector<float>{-1, 1e4f}));
  EXPECT_EQ(dy, (std::vector<float>{0, 1}));
}

TEST(ArrayFunctions, MapsTakeArraysWithoutElementsAndScalars) {
  EXPECT_EQ(exp(Variable(Tensor::empty({3, 0, 2}))).shape(), Shape({3, 0, 2}));
  EXPECT_EQ(abs(Variable(Tensor::full({}, -2.5))).value().item(), 2.5);
}

TEST(ArrayFunctions, BadSettingsAreNamed) {
  EXPECT_THROW(clip(Variable(Tensor::zeros({2})), 1, 0), Error);
  EXPECT_THROW(softplus(Variable(Tensor::zeros({2})), 0), Error);
}

}  // namespace
}  // namespace tasuki
