// Every function of arrays with four axes takes them in every order of elements: operands, targets
// and gradients.
#include "tests/support/orders.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/functions/sequences.hpp"
#include "nn/random.hpp"
#include "reference.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"
#include "tests/support/weighted_sum.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::every_order;
using testing::in_order;
using testing::Order;
using testing::random_tensor;
using testing::relative_error;

using Variables = std::vector<Variable>;

struct Case {
  const char* name;
  std::vector<Shape> shapes;  // of the operands
  std::function<Variables(const Variables& in)> run;
};

// A function of arrays of this shape.
Case unary(const char* name, const Shape& shape,
           std::function<Variable(const Variable& x)> function) {
  return {name, {shape}, [=](const Variables& in) { return Variables{function(in[0])}; }};
}
Case binary(const char* name, const Shape& shape,
            std::function<Variable(const Variable& a, const Variable& b)> function) {
  return {
      name, {shape, shape}, [=](const Variables& in) { return Variables{function(in[0], in[1])}; }};
}

Tensor labels_of(const Shape& shape, std::int64_t classes) {
  const Tensor labels = Tensor::empty(shape, DType::int32);
  for (std::int64_t i = 0; i < labels.count(); ++i)
    labels.data<std::int32_t>()[i] = static_cast<std::int32_t>((i * 7 + i / 3) % classes);
  return labels;
}

// x: positive numbers.
std::vector<Case> cases_of(const Shape& x) {
  const std::int64_t channels = x[1];
  const Shape channel{channels}, row{x.count_per_item()};
  std::vector<Case> cases = {
      unary("relu", x, [](const Variable& v) { return F::relu(v - 0.5f); }),
      unary("leaky_relu", x, [](const Variable& v) { return F::leaky_relu(v - 0.5f); }),
      unary("sigmoid", x, [](const Variable& v) { return F::sigmoid(v); }),
      unary("tanh", x, [](const Variable& v) { return F::tanh(v); }),
      unary("gelu", x, [](const Variable& v) { return F::gelu(v); }),
      unary("silu", x, [](const Variable& v) { return F::silu(v); }),
      unary("elu", x, [](const Variable& v) { return F::elu(v); }),
      unary("softplus", x, [](const Variable& v) { return F::softplus(v); }),
      unary("neg", x, [](const Variable& v) { return F::neg(v); }),
      unary("exp", x, [](const Variable& v) { return F::exp(v); }),
      unary("log", x, [](const Variable& v) { return F::log(v); }),
      unary("sqrt", x, [](const Variable& v) { return F::sqrt(v); }),
      unary("pow", x, [](const Variable& v) { return F::pow(v, 1.5f); }),
      unary("abs", x, [](const Variable& v) { return F::abs(v); }),
      unary("clip", x, [](const Variable& v) { return F::clip(v, 0.2f, 0.7f); }),
      unary("3 / x", x, [](const Variable& v) { return 3.0f / v; }),
      binary("add", x, [](const Variable& a, const Variable& b) { return a + b; }),
      binary("sub", x, [](const Variable& a, const Variable& b) { return a - b; }),
      binary("mul", x, [](const Variable& a, const Variable& b) { return a * b; }),
      binary("div", x, [](const Variable& a, const Variable& b) { return a / b; }),
      binary("pow of two", x, [](const Variable& a, const Variable& b) { return F::pow(a, b); }),
      binary("maximum", x, [](const Variable& a, const Variable& b) { return F::maximum(a, b); }),
      binary("minimum", x, [](const Variable& a, const Variable& b) { return F::minimum(a, b); }),
      binary("where", x,
             [](const Variable& a, const Variable& b) { return F::where(F::greater(a, b), a, b); }),
      binary("where an array is not 0", x,
             [](const Variable& a, const Variable& b) {
               return F::where(F::relu(a - 0.5f).value(), a, b);
             }),
      binary("equal", x, [](const Variable& a, const Variable& b) { return Variable(F::equal(a, b)); }),
      binary("greater_equal", x,
             [](const Variable& a, const Variable& b) { return Variable(F::greater_equal(a, b)); }),
      {"mul, broadcast", {x, {1, channels, 1, 1}}, [](const Variables& in) {
         return Variables{in[0] * in[1]};
       }},
      {"add, broadcast", {{1, channels, x[2], x[3]}, x}, [](const Variables& in) {
         return Variables{in[0] + in[1]};
       }},
      unary("broadcast_to", {x[0], 1, x[2], 1},
            [=](const Variable& v) { return F::broadcast_to(v, x); }),
      unary("transpose", x, [](const Variable& v) { return F::transpose(v, {0, 2, 3, 1}); }),
      unary("slice", x, [](const Variable& v) { return F::slice(v, {{}, {1, 4}, {1, 3}}); }),
      unary("get_item", x, [](const Variable& v) { return F::get_item(v, 1, 2); }),
      {"split", {x}, [](const Variables& in) { return F::split(in[0], 2, 3); }},
      {"split_at", {x}, [](const Variables& in) { return F::split_at(in[0], {1, 3}, 1); }},
      {"separate", {x}, [](const Variables& in) { return F::separate(in[0], 2); }},
      unary("expand_dims", x, [](const Variable& v) { return F::expand_dims(v, 1); }),
      unary("squeeze", {x[0], channels, 1, x[3]}, [](const Variable& v) { return F::squeeze(v, 2); }),
      unary("pad", x, [](const Variable& v) { return F::pad(v, {{}, {1, 0}, {0, 2}}, 3); }),
      binary("concat", x, [](const Variable& a, const Variable& b) { return F::concat({a, b, a}); }),
      binary("stack", x, [](const Variable& a, const Variable& b) { return F::stack({a, b}, 1); }),
      unary("reshape", x, [=](const Variable& v) { return F::reshape(v, {x.count()}); }),
      unary("flatten", x, [](const Variable& v) { return F::flatten(v); }),
      unary("sum", x, [](const Variable& v) { return F::sum(v, {0, 2}); }),
      unary("mean", x, [](const Variable& v) { return F::mean(v, {1}, true); }),
      unary("max", x, [](const Variable& v) { return F::max(v, {2, 3}, true); }),
      unary("min", x, [](const Variable& v) { return F::min(v, {1}); }),
      unary("softmax", x, [](const Variable& v) { return F::softmax(v); }),
      unary("log_softmax", x, [](const Variable& v) { return F::log_softmax(v, -1); }),
      binary("matmul", x,
             [](const Variable& a, const Variable& b) { return F::matmul(a, b, true, false); }),
      {"linear", {x, {7, x.count_per_item()}, {7}}, [](const Variables& in) {
         return Variables{F::linear(in[0], in[1], in[2], /*relu=*/true)};
       }},
      {"add_linear", {x, {7, x.count_per_item()}, {7}, {x[0], 7}}, [](const Variables& in) {
         return Variables{F::add_linear(in[3], in[0], in[1], in[2])};
       }},
      {"linear_gelu", {x, {7, x.count_per_item()}, {7}}, [](const Variables& in) {
         return Variables{F::linear_gelu(in[0], in[1], in[2])};
       }},
      {"batch_norm", {x, channel, channel}, [](const Variables& in) {
         F::BatchStatistics found;
         const Variable y = F::batch_norm(in[0], in[1], in[2], 1e-3f, true, &found);
         return Variables{y, Variable(found.mean), Variable(found.variance)};
       }},
      {"batch_norm with a shortcut", {x, channel, channel}, [](const Variables& in) {
         const Variable h = F::leaky_relu(in[0]);
         return Variables{h + F::batch_norm(h, in[1], in[2], 1e-3f, true)};
       }},
      {"group_norm with a shortcut", {x, channel, channel}, [](const Variables& in) {
         const Variable h = F::leaky_relu(in[0]);
         return Variables{h + F::group_norm(h, 2, in[1], in[2])};
       }},
      {"fixed_batch_norm", {x, channel, channel}, [](const Variables& in) {
         const NoGrad evaluation;
         return Variables{F::fixed_batch_norm(in[0], in[1], in[2],
                                           {in[1].value(), in[2].value()}, 1e-3f, true)};
       }},
      {"layer_norm", {x, row, row}, [](const Variables& in) {
         return Variables{F::layer_norm(in[0], in[1], in[2])};
       }},
      {"group_norm", {x, channel, channel}, [](const Variables& in) {
         return Variables{F::group_norm(in[0], 2, in[1], in[2])};
       }},
      unary("local_response_norm", x,
            [](const Variable& v) { return F::local_response_norm(v, {.alpha = 0.5f}); }),
      unary("max_pooling_2d", x, [](const Variable& v) { return F::max_pooling_2d(v, 3, 2, 1); }),
      unary("average_pooling_2d", x,
            [](const Variable& v) { return F::average_pooling_2d(v, 2, 3, 1); }),
      unary("relu_average_pooling_2d", x,
            [](const Variable& v) { return F::relu_average_pooling_2d(v - 0.5f, 2); }),
      unary("global_average_pooling_2d", x,
            [](const Variable& v) { return F::global_average_pooling_2d(v); }),
      unary("resize_images", x, [](const Variable& v) { return F::resize_images(v, 3, 9); }),
      unary("upsampling_2d", x, [](const Variable& v) { return F::upsampling_2d(v, 2); }),
      unary("dropout", x, [](const Variable& v) { return F::dropout(v, 0.4f); }),
      unary("gaussian_noise", x, [](const Variable& v) { return F::gaussian_noise(v, 0.3f); }),
      unary("softmax_cross_entropy", x,
            [=](const Variable& v) {
              return F::softmax_cross_entropy(v, labels_of({x[0], x[2], x[3]}, channels),
                                           {.label_smoothing = 0.1f});
            }),
      binary("sigmoid_cross_entropy", x,
             [](const Variable& a, const Variable& t) {
               return F::sigmoid_cross_entropy(a, t.value());
             }),
      unary("sigmoid_cross_entropy of labels", x,
            [=](const Variable& v) { return F::sigmoid_cross_entropy(v, labels_of(x, 2)); }),
      binary("mean_squared_error", x,
             [](const Variable& a, const Variable& t) { return F::mean_squared_error(a, t.value()); }),
      binary("huber_loss", x,
             [](const Variable& a, const Variable& t) { return F::huber_loss(a, t.value(), 0.3f); }),
      unary("attention of a part", x,
            [=](const Variable& v) {
              const Variable rows = F::reshape(v, {x[0], channels * x[2], x[3]});
              return F::attention(rows, rows, rows, {.heads = 2});
            }),
  };
  const Conv2dOptions options{2, 1, 1, 1, 1, 1, 1};
  for (const ConvAlgorithm algorithm : {ConvAlgorithm::direct, ConvAlgorithm::interleaved}) {
    const bool is_direct = algorithm == ConvAlgorithm::direct;
    cases.push_back({is_direct ? "conv2d" : "interleaved conv2d",
                     {x, {6, channels, 3, 3}, {6}},
                     [=](const Variables& in) {
                       set_conv_algorithm(algorithm);
                       return Variables{F::conv2d(in[0], in[1], in[2], options)};
                     }});
    cases.push_back({is_direct ? "deconv2d" : "interleaved deconv2d",
                     {x, {channels, 6, 3, 3}, {6}},
                     [=](const Variables& in) {
                       set_conv_algorithm(algorithm);
                       return Variables{F::deconv2d(in[0], in[1], in[2], options)};
                     }});
  }
  return cases;
}

struct Outcome {
  std::vector<Tensor> results, gradients;
};

// `place`: how the operands and the gradients of the results lie in memory.
Outcome outcome_of(const Case& test, const std::function<Tensor(const Tensor&)>& place) {
  RandomKeys keys(3);
  const RandomScope random(keys);
  Variables in;
  for (std::size_t i = 0; i < test.shapes.size(); ++i) {
    const Tensor value = random_tensor(test.shapes[i], i + 1);
    for (float& each : value.span<float>()) each = 0.55f + 0.45f * each;
    in.emplace_back(place(value), true);
  }
  const Variables results = test.run(in);
  Outcome outcome;
  std::vector<Tensor> upstream;
  bool has_gradients = false;
  for (const Variable& result : results) {
    outcome.results.push_back(result.value());
    upstream.push_back(place(random_tensor(result.shape(), 9)));
    has_gradients = has_gradients || result.requires_grad();
  }
  if (!has_gradients) return outcome;
  testing::weighted_sum(results, upstream).backward();
  for (const Variable& each : in)
    if (each.grad()) outcome.gradients.push_back(each.grad());
  return outcome;
}

void expect_equal(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].shape(), expected[i].shape());
    EXPECT_LT(relative_error(found[i], expected[i]), 1e-5) << "array " << i;
  }
}

class MemoryOrders : public ::testing::Test {
 protected:
  MemoryOrders() { set_cpu_threads(1); }
  ~MemoryOrders() override { set_conv_algorithm(ConvAlgorithm::fastest); }

  // With all of them in the same order, and with each in the next one.
  static void check(const Shape& x) {
    for (const Case& test : cases_of(x)) {
      SCOPED_TRACE(fmt::format("{} of {}", test.name, x.text()));
      const Outcome expected = outcome_of(test, [](const Tensor& value) { return value; });
      for (std::size_t first = 0; first < every_order.size(); ++first)
        for (const std::size_t step : {0, 1}) {
          SCOPED_TRACE(fmt::format("{}{}", every_order[first].name,
                                   step == 0 ? "" : ", and others in other orders"));
          std::size_t next = first;
          try {
            const Outcome found = outcome_of(test, [&](const Tensor& value) {
              const Order& order = every_order[next % every_order.size()];
              next += step;
              return in_order(value, order);
            });
            expect_equal(found.results, expected.results);
            expect_equal(found.gradients, expected.gradients);
          } catch (const Error& error) {
            ADD_FAILURE() << error.what();
          }
        }
    }
  }
};

TEST_F(MemoryOrders, GiveTheSameResultsForWholeBlocks) {
  check({16, 16, 4, 6});
}

// The padding of blocks must be neither read nor left undefined.
TEST_F(MemoryOrders, GiveTheSameResultsForPaddedBlocks) {
  check({3, 6, 4, 6});
}

}  // namespace
}  // namespace tasuki
