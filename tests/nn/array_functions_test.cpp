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
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "reference.hpp"
#include "tensor/backend.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

Variable vector_of(const std::vector<float>& values) {
  return Variable(
      Tensor::from(std::span<const float>(values), {static_cast<std::int64_t>(values.size())}),
      true);
}

std::vector<float> plain_values(const Tensor& x) {
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
  return {plain_values(y.value()), plain_values(x.grad())};
}

TEST(ArrayFunctions, ExpAndLogCoverTheRangeOfFloat) {
  const auto [e, de] = at({-infinity, -200, -87, 0, 88.7f, 89, infinity}, F::exp);
  EXPECT_EQ(e[0], 0);
  EXPECT_EQ(e[1], 0);
  EXPECT_NEAR(e[2] / std::exp(-87.0f), 1, 1e-6);
  EXPECT_EQ(e[3], 1);
  EXPECT_NEAR(e[4] / std::exp(88.7f), 1, 1e-6);
  EXPECT_EQ(e[5], infinity);
  EXPECT_EQ(e[6], infinity);
  EXPECT_EQ(de[3], 1);
  const auto [l, dl] = at({0, 1, infinity, 1e38f, 2e-38f}, F::log);
  EXPECT_EQ(l[0], -infinity);
  EXPECT_EQ(l[1], 0);
  EXPECT_EQ(l[2], infinity);
  EXPECT_NEAR(l[3], std::log(1e38f), 1e-5);
  EXPECT_NEAR(l[4], std::log(2e-38f), 1e-5);
  EXPECT_EQ(dl[0], infinity);
  const auto nan = at({-1, std::nanf("")}, F::log).first;
  EXPECT_TRUE(std::isnan(nan[0]) && std::isnan(nan[1]));
  EXPECT_TRUE(std::isnan(at({std::nanf("")}, F::exp).first[0]));
}

TEST(ArrayFunctions, ActivationsAreLinearFarFromZero) {
  const std::vector<Function1> functions = {[](const Variable& x) { return F::gelu(x); },
                                            [](const Variable& x) { return F::gelu(x, true); },
                                            F::silu,
                                            [](const Variable& x) { return F::softplus(x); }};
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
  const auto [y, dy] = at({-1e4f, 1e4f}, [](const Variable& x) { return F::elu(x); });
  EXPECT_EQ(y, (std::vector<float>{-1, 1e4f}));
  EXPECT_EQ(dy, (std::vector<float>{0, 1}));
}

TEST(ArrayFunctions, MapsAcceptEmptyArraysAndScalars) {
  EXPECT_EQ(F::exp(Variable(Tensor::empty({3, 0, 2}))).shape(), Shape({3, 0, 2}));
  EXPECT_EQ(F::abs(Variable(Tensor::full({}, -2.5))).value().item(), 2.5);
}

// Each function of a scalar has the numbers of the same function of one element, and no axis more.
TEST(ArrayFunctions, ScalarsStayScalars) {
  const Variable two(Tensor::full({}, 2));
  const Tensor half = Tensor::full({}, 0.5);
  const std::vector<std::pair<const char*, std::function<Variable(const Variable&)>>> functions{
      {"relu", F::relu},
      {"leaky_relu", [](const Variable& x) { return F::leaky_relu(x); }},
      {"sigmoid", F::sigmoid},
      {"tanh", F::tanh},
      {"gelu", [](const Variable& x) { return F::gelu(x); }},
      {"silu", F::silu},
      {"elu", [](const Variable& x) { return F::elu(x); }},
      {"softplus", [](const Variable& x) { return F::softplus(x); }},
      {"exp", F::exp},
      {"log", F::log},
      {"sqrt", F::sqrt},
      {"abs", F::abs},
      {"clip", [](const Variable& x) { return F::clip(x, 0, 1); }},
      {"power", [](const Variable& x) { return F::pow(x, 1.5f); }},
      {"number", [](const Variable& x) { return 1 - 3 / x; }},
      {"add", [](const Variable& x) { return x + x; }},
      {"two", [&](const Variable& x) { return x * two - two / x; }},
      {"powers", [&](const Variable& x) { return F::pow(two, x); }},
      {"maximum", [&](const Variable& x) { return F::maximum(x, two); }},
      {"where", [&](const Variable& x) { return F::where(F::greater(x, two), x, two * x); }},
      {"sum", [](const Variable& x) { return F::sum(x); }},
      {"mean", [](const Variable& x) { return F::mean(x, {}, true); }},
      {"max", [](const Variable& x) { return F::max(x); }},
      {"min", [](const Variable& x) { return F::min(x); }},
      {"transpose", [](const Variable& x) { return F::transpose(x); }},
      {"slice", [](const Variable& x) { return F::slice(x, {}); }},
      {"pad", [](const Variable& x) { return F::pad(x, {}); }},
      {"stack",
       [](const Variable& x) {
         return F::sum(F::stack({x, x}));
       }},
      {"broadcast_to",
       [](const Variable& x) {
         return F::sum(F::broadcast_to(x, {2, 3}));
       }},
      {"softmax",
       [](const Variable& x) { return F::squeeze(F::softmax(F::expand_dims(x, 0), 0), 0); }},
      {"mean_squared_error",
       [&](const Variable& x) { return F::mean_squared_error(x, half.reshape(x.shape())); }},
      {"huber_loss",
       [&](const Variable& x) { return F::huber_loss(x, half.reshape(x.shape()), 1); }},
      {"sigmoid_cross_entropy",
       [&](const Variable& x) { return F::sigmoid_cross_entropy(x, half.reshape(x.shape())); }},
  };
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    const Variable scalar(Tensor::full({}, 0.75), true), one(Tensor::full({1}, 0.75), true);
    const Variable y = f(scalar);
    const Variable expected = F::sum(f(one));
    ASSERT_EQ(y.shape(), Shape{});
    EXPECT_EQ(y.value().item(), expected.value().item());
    y.backward();
    expected.backward();
    ASSERT_EQ(scalar.grad().shape(), Shape{});
    EXPECT_EQ(scalar.grad().item(), one.grad().item());
  }
}

TEST(ArrayFunctions, NameInvalidSettings) {
  EXPECT_THROW(F::clip(Variable(Tensor::zeros({2})), 1, 0), Error);
  EXPECT_THROW(F::softplus(Variable(Tensor::zeros({2})), 0), Error);
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

TEST(ArrayFunctions, LongSumsAreExactForAnyNumberOfThreads) {
  const int threads = cpu_threads();
  for (const Shape& shape :
       {Shape{100003}, Shape{3, 20000}, Shape{20000, 3}, Shape{2, 700, 33}, Shape{300, 5000}}) {
    const Tensor x = testing::random_tensor(shape, 3);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      set_cpu_threads(1);
      const Tensor one = F::sum(Variable(x), {axis}).value();
      expect_sums(x, axis, one);
      set_cpu_threads(3);
      EXPECT_EQ(plain_values(F::sum(Variable(x), {axis}).value()), plain_values(one));
    }
  }
  set_cpu_threads(threads);
}

TEST(ArrayFunctions, MaxHandlesLongAxes) {
  const Tensor x = testing::random_tensor({3, 20011, 2}, 5);
  x.data<float>()[(1 * 20011 + 17000) * 2 + 1] = 7;
  const Tensor y = F::max(Variable(x), {1}).value();
  EXPECT_EQ(y.shape(), Shape({3, 2}));
  EXPECT_EQ(y.data<float>()[1 * 2 + 1], 7);
  EXPECT_LE(y.data<float>()[0], 1);
  x.data<float>()[40] = std::nanf("");
  EXPECT_TRUE(std::isnan(F::max(Variable(x)).value().item()));
  EXPECT_TRUE(std::isnan(F::max(Variable(x), {1, 0}).value().data<float>()[0]));
}

TEST(ArrayFunctions, BroadcastingCrossesBlockBoundaries) {
  const Tensor x = testing::random_tensor({3, 2100, 5}, 1), row = testing::random_tensor({5}, 2);
  const Tensor column = testing::random_tensor({2100, 1}, 4);
  const Tensor y = (Variable(x) * Variable(row) + Variable(column)).value();
  for (std::int64_t i = 0; i < x.count(); ++i)
    ASSERT_EQ(y.data<float>()[i],
              x.data<float>()[i] * row.data<float>()[i % 5] + column.data<float>()[i / 5 % 2100])
        << i;
}

TEST(ArrayFunctions, ReductionsOverEmptyAxesGiveZeros) {
  const Variable none(Tensor::empty({3, 0, 2}));
  EXPECT_EQ(plain_values(F::sum(none, {1}).value()), std::vector<float>(6, 0));
  EXPECT_EQ(F::sum(none, {0}).shape(), Shape({0, 2}));
  EXPECT_TRUE(std::isnan(F::mean(none).value().item()));
  EXPECT_THROW(F::max(none, {1}), Error);
  EXPECT_EQ(F::max(none, {0}).shape(), Shape({0, 2}));
  EXPECT_EQ((none + Variable(Tensor::zeros({1, 2}))).shape(), Shape({3, 0, 2}));
  EXPECT_EQ(F::transpose(none).shape(), Shape({2, 0, 3}));
  EXPECT_EQ(F::slice(Variable(Tensor::zeros({4})), {{3, 2}}).shape(), Shape({0}));
  EXPECT_EQ(plain_values(F::pad(none, {{0, 0}, {1, 0}}, 3).value()), std::vector<float>(6, 3));
  const Variable product =
      F::matmul(Variable(Tensor::empty({2, 3, 0})), Variable(Tensor::empty({0, 4})));
  EXPECT_EQ(plain_values(product.value()), std::vector<float>(24, 0));
}

TEST(ArrayFunctions, UnusedPartsGetNoGradient) {
  const Variable x = vector_of({1, 2, 3, 4});
  F::sum(F::split(x, 4)[2]).backward();
  EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{0, 0, 1, 0}));
}

// As with two optimizers whose losses share a part of their graph.
TEST(ArrayFunctions, RetainedGraphGivesPartsEachPassesGradients) {
  const auto keep = [](const Variable& loss) {
    run_backward(loss, {.seed = Tensor::full({}, 1), .keeps_graph = true});
  };
  for (const auto& divide : {+[](const Variable& x) { return F::split(x, 2); },
                             +[](const Variable& x) { return F::split_at(x, {2}); }}) {
    const Variable x = vector_of({1, 2, 3, 4});
    const std::vector<Variable> parts = divide(2 * x);
    keep(F::sum(parts[0]));
    EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{2, 2, 0, 0}));
    keep(F::sum(10 * parts[1]) + F::sum(100 * parts[0]));
    EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{202, 202, 20, 20}));
  }
  const Variable x = vector_of({1, 2});
  const std::vector<Variable> items = F::separate(2 * x);
  keep(items[1]);
  EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{0, 2}));
  (items[0] + 10 * items[1]).backward();
  EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{2, 22}));
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

TEST(ArrayFunctions, FailingFunctionLeavesNothingInARetainedGraph) {
  const Variable x = vector_of({1, 2, 3, 4});
  bool fails = true;
  const Variable doubled = 2 * x;
  const Variable passed = Function::record(doubled.value(), {doubled},
                                           [&] { return std::make_unique<Failing>(fails); });
  const std::vector<Variable> parts = F::split(passed, 2);
  const Variable loss = F::sum(10 * parts[1]) + F::sum(100 * parts[0]) + F::sum(doubled);
  const BackwardPass pass{.seed = Tensor::full({}, 1), .keeps_graph = true};
  EXPECT_THROW(run_backward(loss, pass), std::runtime_error);
  x.clear_grad();
  fails = false;
  run_backward(loss, pass);
  EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{202, 202, 22, 22}));
}

TEST(ArrayFunctions, FailedPassLeavesNothingInARetainedGraph) {
  const Variable x = vector_of({1, 2, 3, 4});
  const std::vector<Variable> parts = F::split(2 * x, 2);
  const Variable loss = F::sum(10 * parts[1]) + F::sum(100 * parts[0]);
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
    EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{200, 200, 20, 20})) << functions;
  }
  EXPECT_GE(functions, 8);
}

TEST(ArrayFunctions, AcceptTheSameArrayTwice) {
  const Variable x = vector_of({1, -2, 3});
  F::sum(x * x - x / 2).backward();
  EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{1.5f, -4.5f, 5.5f}));
}

TEST(ArrayFunctions, TiesGoToTheFirstArrayOrAllElements) {
  const Variable a = vector_of({1, 2}), b = vector_of({1, 3}), c = vector_of({4, 4, 1});
  F::sum(F::maximum(a, b)).backward();
  EXPECT_EQ(plain_values(a.grad()), (std::vector<float>{1, 0}));
  EXPECT_EQ(plain_values(b.grad()), (std::vector<float>{0, 1}));
  F::max(c).backward();
  EXPECT_EQ(plain_values(c.grad()), (std::vector<float>{1, 1, 0}));
}

TEST(ArrayFunctions, ComparisonsGiveConditions) {
  const Variable x = vector_of({-1, 0, 2});
  const Variable zero = vector_of({0});
  EXPECT_EQ(plain_values(F::equal(x, zero)), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(plain_values(F::greater_equal(x, zero)), (std::vector<float>{0, 1, 1}));
  F::sum(F::where(F::greater(x, zero), x * x, -x)).backward();
  EXPECT_EQ(plain_values(x.grad()), (std::vector<float>{-1, -1, 4}));
  const std::vector<std::uint8_t> bytes = {0, 3, 1};
  const Tensor mask = Tensor::from(std::span<const std::uint8_t>(bytes), {3});
  EXPECT_EQ(plain_values(F::where(mask, x, zero).value()), (std::vector<float>{0, 0, 2}));
}

TEST(ArrayFunctions, SupportOperatorExpressions) {
  const Variable x(testing::random_tensor({3, 50}, 6), true);
  const Variable gamma = vector_of({2}), beta = vector_of({-1});
  const Variable centred = x - F::mean(x, {1}, /*keepdims=*/true);
  const Variable y =
      gamma * centred / F::sqrt(F::mean(centred * centred, {1}, true) + 1e-5f) + beta;
  EXPECT_NEAR(F::mean(y).value().item(), -1, 1e-5);
  EXPECT_NEAR(F::mean((y + 1) * (y + 1)).value().item(), 4, 1e-2);
  const Variable z = 1 - F::where(F::greater(x, y), 2 * x, F::abs(y));
  F::sum(z).backward();
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
  const Variable joined = F::concat({x, x}, -1);
  EXPECT_EQ(joined.shape(), Shape({2, 3, 8}));
  F::sum(joined).backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_EQ(F::stack({x, x}, -1).shape(), Shape({2, 3, 4, 2}));
  EXPECT_EQ(F::softmax(x, -3).value().data<float>()[0], 0.5f);
}

TEST(ArrayFunctions, SoftmaxOfMinusInfinityIsZero) {
  const float none = -std::numeric_limits<float>::infinity();
  const std::vector<float> values{0, none, 0, none};
  const Variable rows(Tensor::from(std::span<const float>(values), {2, 2}));
  for (const int axis : {0, 1}) {
    const Variable y = F::softmax(axis == 0 ? F::transpose(rows) : rows, axis);
    EXPECT_EQ(std::ranges::min(plain_values(y.value())), 0.0f) << axis;
  }
}

TEST(ArrayFunctions, ErrorsNameFunctionAndShapes) {
  const Variable x(Tensor::zeros({2, 3})), y(Tensor::zeros({4, 3}));
  const auto expect = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect(error_of([&] { x* y; }), "shapes 2x3 and 4x3 cannot be broadcast");
  expect(error_of([&] { F::sum(x, {2}); }), "sum: an array of 2x3 has no axis 2");
  expect(error_of([&] { F::concat({x, y}, -3); }), "concat: an array of 2x3 has no axis -3");
  expect(error_of([&] { F::softmax(x, -3); }), "softmax: an array of 2x3 has no axis -3");
  const Variable ids(Tensor::zeros({2, 3}, DType::int32));
  expect(error_of([&] { x + ids; }), "add: int32 of 2x3 has no arithmetic");
  expect(error_of([&] { F::exp(ids); }), "exp: int32 of 2x3 has no arithmetic");
  expect(error_of([&] { F::sum(ids); }), "sum: int32 of 2x3 has no arithmetic");
  expect(error_of([&] { F::sum(x, {1, -1}); }), "sum: axis -1 of 2x3 is named twice");
  expect(error_of([&] { F::broadcast_to(x, {2, 4}); }), "shapes 2x3 and 2x4 cannot be broadcast");
  expect(error_of([&] { F::broadcast_to(x, {3}); }), "2x3 cannot be repeated to 3");
  expect(error_of([&] {
           F::transpose(x, {0, 0});
         }),
         "transpose: the axes 0, 0 are not a permutation");
  expect(error_of([&] { F::split(x, 2, 1); }),
         "split: axis 1 of 2x3 cannot be divided into 2 equal parts");
  expect(error_of([&] { F::split_at(x, {2, 1}, 1); }), "split: the indices 2, 1 do not ascend");
  expect(error_of([&] { F::stack({x, y}); }), "stack: shapes 2x3 and 4x3 differ");
  expect(error_of([&] { F::get_item(x, 2); }), "get_item: axis 0 of 2x3 has no index 2");
  expect(error_of([&] { F::squeeze(x, 0); }), "squeeze: axis 0 of 2x3 does not have size 1");
  expect(error_of([&] { F::pad(x, {{-1, 0}}); }), "pad: negative widths -1 and 0 of axis 0");
  expect(error_of([&] { F::matmul(x, y); }), "matmul: arrays of 2x3 and 4x3 do not fit each other");
  expect(error_of([&] { F::matmul(x, y, true, true); }), "2x3 (transposed) and 4x3 (transposed)");
}

}  // namespace
}  // namespace tasuki
