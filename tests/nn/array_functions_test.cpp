// Functions of arrays where reference cases do not reach: limits, axes of no elements, bad shapes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "nn/backward.hpp"
#include "nn/function.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/concat.hpp"
#include "nn/functions/huber_loss.hpp"
#include "nn/functions/math.hpp"
#include "nn/functions/matmul.hpp"
#include "nn/functions/mean_squared_error.hpp"
#include "nn/functions/rearrange.hpp"
#include "nn/functions/reduction.hpp"
#include "nn/functions/sigmoid_cross_entropy.hpp"
#include "nn/functions/softmax.hpp"
#include "reference.hpp"
#include "tensor/backend.hpp"

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

// Each function of a scalar has the numbers of the same function of one element, and no axis more.
TEST(ArrayFunctions, ScalarsStayScalars) {
  const Variable two(Tensor::full({}, 2));
  const Tensor half = Tensor::full({}, 0.5);
  const std::vector<std::pair<const char*, std::function<Variable(const Variable&)>>> functions{
      {"relu", relu},
      {"leaky_relu", [](const Variable& x) { return leaky_relu(x); }},
      {"sigmoid", sigmoid},
      {"tanh", tanh},
      {"gelu", [](const Variable& x) { return gelu(x); }},
      {"silu", silu},
      {"elu", [](const Variable& x) { return elu(x); }},
      {"softplus", [](const Variable& x) { return softplus(x); }},
      {"exp", exp},
      {"log", log},
      {"sqrt", sqrt},
      {"abs", abs},
      {"clip", [](const Variable& x) { return clip(x, 0, 1); }},
      {"power", [](const Variable& x) { return pow(x, 1.5f); }},
      {"number", [](const Variable& x) { return 1 - 3 / x; }},
      {"add", [](const Variable& x) { return x + x; }},
      {"two", [&](const Variable& x) { return x * two - two / x; }},
      {"powers", [&](const Variable& x) { return pow(two, x); }},
      {"maximum", [&](const Variable& x) { return maximum(x, two); }},
      {"where", [&](const Variable& x) { return where(greater(x, two), x, two * x); }},
      {"sum", [](const Variable& x) { return sum(x); }},
      {"mean", [](const Variable& x) { return mean(x, {}, true); }},
      {"max", [](const Variable& x) { return max(x); }},
      {"min", [](const Variable& x) { return min(x); }},
      {"transpose", [](const Variable& x) { return transpose(x); }},
      {"slice", [](const Variable& x) { return slice(x, {}); }},
      {"pad", [](const Variable& x) { return pad(x, {}); }},
      {"stack",
       [](const Variable& x) {
         return sum(stack({x, x}));
       }},
      {"broadcast_to",
       [](const Variable& x) {
         return sum(broadcast_to(x, {2, 3}));
       }},
      {"softmax", [](const Variable& x) { return squeeze(softmax(expand_dims(x, 0), 0), 0); }},
      {"mean_squared_error",
       [&](const Variable& x) { return mean_squared_error(x, half.reshape(x.shape())); }},
      {"huber_loss", [&](const Variable& x) { return huber_loss(x, half.reshape(x.shape()), 1); }},
      {"sigmoid_cross_entropy",
       [&](const Variable& x) { return sigmoid_cross_entropy(x, half.reshape(x.shape())); }},
  };
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    const Variable scalar(Tensor::full({}, 0.75), true), one(Tensor::full({1}, 0.75), true);
    const Variable y = f(scalar);
    const Variable expected = sum(f(one));
    ASSERT_EQ(y.shape(), Shape{});
    EXPECT_EQ(y.value().item(), expected.value().item());
    y.backward();
    expected.backward();
    ASSERT_EQ(scalar.grad().shape(), Shape{});
    EXPECT_EQ(scalar.grad().item(), one.grad().item());
  }
}

TEST(ArrayFunctions, BadSettingsAreNamed) {
  EXPECT_THROW(clip(Variable(Tensor::zeros({2})), 1, 0), Error);
  EXPECT_THROW(softplus(Variable(Tensor::zeros({2})), 0), Error);
}

// Sums of all elements, in double, at their places of axis `axis` removed.
void expect_sums(const Tensor& x, int axis, const Tensor& sums) {
  std::int64_t inner = 1, outer = 1;
  for (int i = 0; i < axis; ++i) outer *= x.shape()[i];
  for (int i = axis + 1; i < x.shape().rank(); ++i) inner *= x.shape()[i];
  const std::int64_t length = x.shape()[axis];
  for (std::int64_t a = 0; a < outer; ++a)
    for (std::int64_t b = 0; b < inner; ++b) {
      double expected = 0;
      for (std::int64_t i = 0; i < length; ++i)
        expected += static_cast<double>(x.data<float>()[(a * length + i) * inner + b]);
      EXPECT_NEAR(sums.data<float>()[a * inner + b], expected, 1e-6 * std::sqrt(length) * 10)
          << x.shape().text() << " over axis " << axis;
    }
}

TEST(ArrayFunctions, SumsOfManyElementsAreExactAndTheSameForAnyNumberOfThreads) {
  const int threads = cpu_threads();
  for (const Shape& shape :
       {Shape{100003}, Shape{3, 20000}, Shape{20000, 3}, Shape{2, 700, 33}, Shape{300, 5000}}) {
    const Tensor x = testing::random_tensor(shape, 3);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      set_cpu_threads(1);
      const Tensor one = sum(Variable(x), {axis}).value();
      expect_sums(x, axis, one);
      set_cpu_threads(3);
      EXPECT_EQ(values_of(sum(Variable(x), {axis}).value()), values_of(one));
    }
  }
  set_cpu_threads(threads);
}

TEST(ArrayFunctions, LargestElementsAreFoundInLongAxes) {
  const Tensor x = testing::random_tensor({3, 20011, 2}, 5);
  x.data<float>()[(1 * 20011 + 17000) * 2 + 1] = 7;
  const Tensor y = max(Variable(x), {1}).value();
  EXPECT_EQ(y.shape(), Shape({3, 2}));
  EXPECT_EQ(y.data<float>()[1 * 2 + 1], 7);
  EXPECT_LE(y.data<float>()[0], 1);
  x.data<float>()[40] = std::nanf("");
  EXPECT_TRUE(std::isnan(max(Variable(x)).value().item()));
  EXPECT_TRUE(std::isnan(max(Variable(x), {1, 0}).value().data<float>()[0]));
}

TEST(ArrayFunctions, BroadcastLoopsCrossBlocks) {
  const Tensor x = testing::random_tensor({3, 2100, 5}, 1), row = testing::random_tensor({5}, 2);
  const Tensor column = testing::random_tensor({2100, 1}, 4);
  const Tensor y = (Variable(x) * Variable(row) + Variable(column)).value();
  for (std::int64_t i = 0; i < x.count(); ++i)
    ASSERT_EQ(y.data<float>()[i],
              x.data<float>()[i] * row.data<float>()[i % 5] + column.data<float>()[i / 5 % 2100])
        << i;
}

TEST(ArrayFunctions, AxesOfNoElementsGiveNoElementsOrZeros) {
  const Variable none(Tensor::empty({3, 0, 2}));
  EXPECT_EQ(values_of(sum(none, {1}).value()), std::vector<float>(6, 0));
  EXPECT_EQ(sum(none, {0}).shape(), Shape({0, 2}));
  EXPECT_TRUE(std::isnan(mean(none).value().item()));
  EXPECT_THROW(max(none, {1}), Error);
  EXPECT_EQ(max(none, {0}).shape(), Shape({0, 2}));
  EXPECT_EQ((none + Variable(Tensor::zeros({1, 2}))).shape(), Shape({3, 0, 2}));
  EXPECT_EQ(transpose(none).shape(), Shape({2, 0, 3}));
  EXPECT_EQ(slice(Variable(Tensor::zeros({4})), {{3, 2}}).shape(), Shape({0}));
  EXPECT_EQ(values_of(pad(none, {{0, 0}, {1, 0}}, 3).value()), std::vector<float>(6, 3));
  const Variable product =
      matmul(Variable(Tensor::empty({2, 3, 0})), Variable(Tensor::empty({0, 4})));
  EXPECT_EQ(values_of(product.value()), std::vector<float>(24, 0));
}

TEST(ArrayFunctions, PartsThatAreNotUsedGetNoGradient) {
  const Variable x = vector_of({1, 2, 3, 4});
  sum(split(x, 4)[2]).backward();
  EXPECT_EQ(values_of(x.grad()), (std::vector<float>{0, 0, 1, 0}));
}

// As with two optimizers whose losses share a part of their graph.
TEST(ArrayFunctions, PartsOfAKeptGraphGetTheGradientsOfEachPass) {
  const auto keep = [](const Variable& loss) {
    run_backward(loss, {.seed = Tensor::full({}, 1), .keeps_graph = true});
  };
  for (const auto& divide : {+[](const Variable& x) { return split(x, 2); },
                             +[](const Variable& x) { return split_at(x, {2}); }}) {
    const Variable x = vector_of({1, 2, 3, 4});
    const std::vector<Variable> parts = divide(2 * x);
    keep(sum(parts[0]));
    EXPECT_EQ(values_of(x.grad()), (std::vector<float>{2, 2, 0, 0}));
    keep(sum(10 * parts[1]) + sum(100 * parts[0]));
    EXPECT_EQ(values_of(x.grad()), (std::vector<float>{202, 202, 20, 20}));
  }
  const Variable x = vector_of({1, 2});
  const std::vector<Variable> items = separate(2 * x);
  keep(items[1]);
  EXPECT_EQ(values_of(x.grad()), (std::vector<float>{0, 2}));
  (items[0] + 10 * items[1]).backward();
  EXPECT_EQ(values_of(x.grad()), (std::vector<float>{2, 22}));
}

// Passes the gradient on, or throws.
class Failing final : public Function {
 public:
  explicit Failing(const bool& fails) : fails_(fails) {}
  const char* name() const override { return "failing"; }
  void backward(const Tensor& dy, Gradients& gradients) override {
    if (fails_) throw std::runtime_error("planted");
    gradients.add(0, dy);
  }

 private:
  const bool& fails_;
};

TEST(ArrayFunctions, PassesThatFailWithinAFunctionLeaveNothingInAKeptGraph) {
  const Variable x = vector_of({1, 2, 3, 4});
  bool fails = true;
  const Variable doubled = 2 * x;
  const Variable passed = Function::record(doubled.value(), {doubled},
                                           [&] { return std::make_unique<Failing>(fails); });
  const std::vector<Variable> parts = split(passed, 2);
  const Variable loss = sum(10 * parts[1]) + sum(100 * parts[0]) + sum(doubled);
  const BackwardPass pass{.seed = Tensor::full({}, 1), .keeps_graph = true};
  EXPECT_THROW(run_backward(loss, pass), std::runtime_error);
  x.clear_grad();
  fails = false;
  run_backward(loss, pass);
  EXPECT_EQ(values_of(x.grad()), (std::vector<float>{202, 202, 22, 22}));
}

TEST(ArrayFunctions, PassesThatFailLeaveNothingInAKeptGraph) {
  const Variable x = vector_of({1, 2, 3, 4});
  const std::vector<Variable> parts = split(2 * x, 2);
  const Variable loss = sum(10 * parts[1]) + sum(100 * parts[0]);
  const auto passes = [&](int functions) {
    x.clear_grad();
    try {
      run_backward(loss, {.seed = Tensor::full({}, 1),
                          .between =
                              [&functions] {
                                if (--functions < 0) throw std::runtime_error("planted");
                              },
                          .keeps_graph = true});
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  };
  int functions = 0;
  while (!passes(functions)) {
    ++functions;
    EXPECT_TRUE(passes(100));
    EXPECT_EQ(values_of(x.grad()), (std::vector<float>{200, 200, 20, 20})) << functions;
  }
  EXPECT_GE(functions, 8);
}

TEST(ArrayFunctions, AnArrayMeetsItself) {
  const Variable x = vector_of({1, -2, 3});
  sum(x * x - x / 2).backward();
  EXPECT_EQ(values_of(x.grad()), (std::vector<float>{1.5f, -4.5f, 5.5f}));
}

TEST(ArrayFunctions, TiesGoToTheFirstOfTwoArraysAndToAllElementsOfOne) {
  const Variable a = vector_of({1, 2}), b = vector_of({1, 3}), c = vector_of({4, 4, 1});
  sum(maximum(a, b)).backward();
  EXPECT_EQ(values_of(a.grad()), (std::vector<float>{1, 0}));
  EXPECT_EQ(values_of(b.grad()), (std::vector<float>{0, 1}));
  max(c).backward();
  EXPECT_EQ(values_of(c.grad()), (std::vector<float>{1, 1, 0}));
}

TEST(ArrayFunctions, ComparisonsMakeConditions) {
  const Variable x = vector_of({-1, 0, 2});
  const Variable zero = vector_of({0});
  EXPECT_EQ(values_of(equal(x, zero)), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(values_of(greater_equal(x, zero)), (std::vector<float>{0, 1, 1}));
  sum(where(greater(x, zero), x * x, -x)).backward();
  EXPECT_EQ(values_of(x.grad()), (std::vector<float>{-1, -1, 4}));
  const std::vector<std::uint8_t> bytes = {0, 3, 1};
  const Tensor mask = Tensor::from(std::span<const std::uint8_t>(bytes), {3});
  EXPECT_EQ(values_of(where(mask, x, zero).value()), (std::vector<float>{0, 0, 2}));
}

TEST(ArrayFunctions, ExpressionsReadAsTheyAreWritten) {
  const Variable x(testing::random_tensor({3, 50}, 6), true);
  const Variable gamma = vector_of({2}), beta = vector_of({-1});
  const Variable centred = x - mean(x, {1}, /*keepdims=*/true);
  const Variable y = gamma * centred / sqrt(mean(centred * centred, {1}, true) + 1e-5f) + beta;
  EXPECT_NEAR(mean(y).value().item(), -1, 1e-5);
  EXPECT_NEAR(mean((y + 1) * (y + 1)).value().item(), 4, 1e-2);
  const Variable z = 1 - where(greater(x, y), 2 * x, abs(y));
  sum(z).backward();
  for (const Variable& each : {x, gamma, beta}) EXPECT_TRUE(each.grad().defined());
}

// The text of the error that `call` throws.
template <class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ArrayFunctions, CountNegativeAxesFromTheLast) {
  const Variable x(Tensor::zeros({2, 3, 4}), true);
  const Variable joined = concat({x, x}, -1);
  EXPECT_EQ(joined.shape(), Shape({2, 3, 8}));
  sum(joined).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_EQ(stack({x, x}, -1).shape(), Shape({2, 3, 4, 2}));
  EXPECT_EQ(softmax(x, -3).value().data<float>()[0], 0.5f);
}

TEST(ArrayFunctions, SoftmaxOfMinusInfinityIsZero) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> values{0, none, 0, none};
  const Variable rows(Tensor::from(std::span<const float>(values), {2, 2}));
  for (const int axis : {0, 1}) {
    const Variable y = softmax(axis == 0 ? transpose(rows) : rows, axis);
    EXPECT_EQ(std::ranges::min(values_of(y.value())), 0.0f) << axis;
  }
}

TEST(ArrayFunctions, ErrorsNameFunctionsAndShapes) {
  const Variable x(Tensor::zeros({2, 3})), y(Tensor::zeros({4, 3}));
  const auto expect = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(error_of([&] { x* y; }), "shapes 2x3 and 4x3 cannot be broadcast");
  expect(error_of([&] { sum(x, {2}); }), "sum: an array of 2x3 has no axis 2");
  expect(error_of([&] { concat({x, y}, -3); }), "concat: an array of 2x3 has no axis -3");
  expect(error_of([&] { softmax(x, -3); }), "softmax: an array of 2x3 has no axis -3");
  const Variable ids(Tensor::zeros({2, 3}, DType::int32));
  expect(error_of([&] { x + ids; }), "add: int32 of 2x3 has no arithmetic");
  expect(error_of([&] { exp(ids); }), "exp: int32 of 2x3 has no arithmetic");
  expect(error_of([&] { sum(ids); }), "sum: int32 of 2x3 has no arithmetic");
  expect(error_of([&] { sum(x, {1, -1}); }), "sum: axis -1 of 2x3 is named twice");
  expect(error_of([&] { broadcast_to(x, {2, 4}); }), "shapes 2x3 and 2x4 cannot be broadcast");
  expect(error_of([&] { broadcast_to(x, {3}); }), "2x3 cannot be repeated to 3");
  expect(error_of([&] { transpose(x, {0, 0}); }), "transpose: the axes 0, 0 are no order");
  expect(error_of([&] { split(x, 2, 1); }), "split: axis 1 of 2x3 does not have 2 equal parts");
  expect(error_of([&] { split_at(x, {2, 1}, 1); }), "split: the places 2, 1 do not ascend");
  expect(error_of([&] { stack({x, y}); }), "stack: shapes 2x3 and 4x3 differ");
  expect(error_of([&] { get_item(x, 2); }), "get_item: axis 0 of 2x3 has no place 2");
  expect(error_of([&] { squeeze(x, 0); }), "squeeze: axis 0 of 2x3 does not have size 1");
  expect(error_of([&] { pad(x, {{-1, 0}}); }), "pad: negative widths -1 and 0 of axis 0");
  expect(error_of([&] { matmul(x, y); }), "matmul: arrays of 2x3 and 4x3 do not fit each other");
  expect(error_of([&] { matmul(x, y, true, true); }), "2x3 (transposed) and 4x3 (transposed)");
}

}  // namespace
}  // namespace tasuki
