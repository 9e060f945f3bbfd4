// GELU in the end of a fully connected layer, against its definition and against GELU as a function
// of its own.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "nn/backward.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/connection.hpp"
#include "reference.hpp"
#include "tests/support/errors.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

// GELU and its slope.
std::array<double, 2> gelu_of(double x, bool approximate) {
  const double pi = std::acos(-1.0);
  if (!approximate) {
    const double share = std::erfc(-x / std::sqrt(2.0)) / 2;
    return {x * share, share + x * std::exp(-x * x / 2) / std::sqrt(2 * pi)};
  }
  const double factor = std::sqrt(2 / pi), cubic = 0.044715;
  const double t = std::tanh(factor * (x + cubic * x * x * x));
  return {x * (1 + t) / 2, (1 + t) / 2 + x / 2 * (1 - t * t) * factor * (1 + 3 * cubic * x * x)};
}

struct Expected {
  Tensor y, dx, dw, db;
};

Expected by_definition(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& dy,
                       bool approximate) {
  const std::int64_t items = x.shape()[0], inputs = x.shape()[1], outputs = w.shape()[0];
  std::vector<double> dx(static_cast<std::size_t>(x.count())),
      dw(static_cast<std::size_t>(w.count())), db(static_cast<std::size_t>(outputs));
  const Tensor y = Tensor::empty({items, outputs});
  const auto at = [](const Tensor& values, std::int64_t i) {
    return static_cast<double>(values.data<float>()[i]);
  };
  for (std::int64_t n = 0; n < items; ++n)
    for (std::int64_t o = 0; o < outputs; ++o) {
      double sum = b ? at(b, o) : 0;
      for (std::int64_t i = 0; i < inputs; ++i)
        sum += at(x, n * inputs + i) * at(w, o * inputs + i);
      const auto [value, slope] = gelu_of(sum, approximate);
      y.data<float>()[n * outputs + o] = static_cast<float>(value);
      const double dh = slope * at(dy, n * outputs + o);
      db[static_cast<std::size_t>(o)] += dh;
      for (std::int64_t i = 0; i < inputs; ++i) {
        dx[static_cast<std::size_t>(n * inputs + i)] += dh * at(w, o * inputs + i);
        dw[static_cast<std::size_t>(o * inputs + i)] += dh * at(x, n * inputs + i);
      }
    }
  const auto rounded = [](const std::vector<double>& values, const Shape& shape) {
    const std::vector<float> floats(values.begin(), values.end());
    return Tensor::from(std::span<const float>(floats), shape);
  };
  return {y, rounded(dx, x.shape()), rounded(dw, w.shape()), rounded(db, {outputs})};
}

TEST(LinearGelu, MatchesItsDefinition) {
  for (const auto& [items, inputs, outputs] :
       {std::array{1, 1, 1}, std::array{3, 33, 1}, std::array{33, 3, 100}, std::array{100, 33, 3},
        std::array{1, 100, 33}})
    for (const bool has_bias : {true, false})
      for (const bool approximate : {false, true}) {
        SCOPED_TRACE(fmt::format("{} x {} x {}, {}, {}", items, inputs, outputs,
                                 has_bias ? "bias" : "no bias", approximate ? "tanh" : "erf"));
        const Variable x(random_tensor({items, inputs}, 1), true),
            w(random_tensor({outputs, inputs}, 2), true);
        const Variable b = has_bias ? Variable(random_tensor({outputs}, 3), true) : Variable();
        const Tensor dy = random_tensor({items, outputs}, 4);
        const Expected expected =
            by_definition(x.value(), w.value(), has_bias ? b.value() : Tensor(), dy, approximate);
        const Variable y = F::linear_gelu(x, w, b, approximate);
        weighted_sum(y, dy).backward();
        EXPECT_LT(relative_error(y.value(), expected.y), 1e-5);
        EXPECT_LT(relative_error(x.grad(), expected.dx), 1e-5);
        EXPECT_LT(relative_error(w.grad(), expected.dw), 1e-5);
        if (has_bias) {
          EXPECT_LT(relative_error(b.grad(), expected.db), 1e-5);
        }
      }
}

std::vector<float> float_values(const Tensor& x) {
  const Tensor plain = x.to(DType::float32).plain();
  return {plain.span<float>().begin(), plain.span<float>().end()};
}

// The same bits, also where gradients are added up.
TEST(LinearGelu, IsGeluAfterTheLayer) {
  for (const DType type : {DType::float32, DType::bfloat16, DType::float16})
    for (const bool approximate : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", name_of(type), approximate ? "tanh" : "erf"));
      Linear fused(std::nullopt, 5), apart(std::nullopt, 5);
      fused.initialize(4);
      apart.initialize(4);
      const Tensor input = random_tensor({9, 7, 3}, 1).to(type), dy = random_tensor({9, 5}, 2);
      const Variable of_fused(input, true), of_apart(input, true);
      for (int pass = 0; pass < 2; ++pass) {
        const Variable y = fused.gelu(of_fused, approximate),
                       z = F::gelu(apart(of_apart), approximate);
        EXPECT_EQ(float_values(y.value()), float_values(z.value()));
        weighted_sum(y, dy.to(type)).backward();
        weighted_sum(z, dy.to(type)).backward();
      }
      EXPECT_EQ(float_values(of_fused.grad()), float_values(of_apart.grad()));
      const auto left = fused.parameters(), right = apart.parameters();
      for (std::size_t i = 0; i < left.size(); ++i)
        EXPECT_EQ(float_values(left[i].parameter->grad()),
                  float_values(right[i].parameter->grad()));
    }
}

TEST(LinearGelu, IsRefusedAfterRelu) {
  Linear with_relu(2, 2, true, initializers::zero(), /*relu=*/true);
  EXPECT_NE(error_of([&] {
              with_relu.gelu(Variable(Tensor::zeros({1, 2})));
            }).find("ReLU"),
            std::string::npos);
}

TEST(LinearGelu, TakesNoItems) {
  const Variable x(Tensor::zeros({0, 3}), true), w(random_tensor({8, 3}, 1), true);
  const Variable y = F::linear_gelu(x, w);
  EXPECT_EQ(y.shape(), Shape({0, 8}));
  weighted_sum(y, Tensor::zeros({0, 8})).backward();
  EXPECT_EQ(float_values(w.grad()), std::vector<float>(24, 0));
}

}  // namespace
}  // namespace tasuki::testing
