#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nn/function.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/images.hpp"
#include "nn/functions/loss.hpp"
#include "nn/parameter.hpp"
#include "reference.hpp"
#include "tensor/backend.hpp"
#include "tensor/conv_algorithm.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::random_tensor;
using testing::relative_error;
using testing::weighted_sum;

Variable sum(const Variable& y) {
  return weighted_sum(y, Tensor::full(y.shape(), 1));
}

std::vector<float> values(const Tensor& tensor) {
  const Tensor plain = tensor.plain();
  return {plain.span<float>().begin(), plain.span<float>().end()};
}

TEST(Autograd, LeavesGetGradients) {
  const Variable x(Tensor::full({3}, 2), true);
  EXPECT_FALSE(x.grad().defined());
  sum(x + x).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<float>{2, 2, 2}));
}

TEST(Autograd, SeedScalesTheGradient) {
  const Variable x(Tensor::full({2}, 2), true);
  sum(F::relu(x)).backward(5);
  EXPECT_EQ(values(x.grad()), (std::vector<float>{5, 5}));
}

// x -> a, b -> a + b + a: gradients of a value that is used several times add up before its own
// function runs, and it runs once.
TEST(Autograd, AddsGradientsInADiamond) {
  const Variable x(Tensor::full({2}, 3), true);
  const Variable a = F::relu(x);
  sum(a + F::leaky_relu(a, 0.5f) + a).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<float>{3, 3}));
}

// Of a plain input, in two passes, and of interleaved images, in one.
TEST(Autograd, FusesReluAndAveragePooling) {
  set_conv_algorithm(ConvAlgorithm::interleaved);
  const Tensor pixels = random_tensor({18, 3, 7, 7}, 1), weights = random_tensor({5, 3, 2, 2}, 2);
  for (const bool interleaved : {false, true}) {
    Variable y[2], from[2];
    for (const int way : {0, 1}) {
      from[way] = Variable(pixels.clone(), true);
      const Variable x = interleaved ? F::conv2d(from[way], Variable(weights), {}, {}) : from[way];
      y[way] = way == 0 ? F::relu_average_pooling_2d(x, 2) : F::average_pooling_2d(F::relu(x), 2);
      sum(y[way]).backward();
    }
    EXPECT_LT(relative_error(y[0].value(), y[1].value()), 1e-6);
    EXPECT_LT(relative_error(from[0].grad(), from[1].grad()), 1e-6);
  }
  set_conv_algorithm(ConvAlgorithm::fastest);
}

// A gradient that two branches share must not be changed by what is added to one of them.
TEST(Autograd, DoesNotOverwriteSharedGradients) {
  const Variable x(Tensor::full({2}, 1), true), z(Tensor::full({2}, 1), true);
  const Variable y = F::relu(x);
  sum((y + z) + (y + y)).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<float>{3, 3}));
  EXPECT_EQ(values(z.grad()), (std::vector<float>{1, 1}));
}

TEST(Autograd, AccumulatesLeafGradientsUntilCleared) {
  const Variable x(Tensor::full({1}, 1), true);
  sum(F::relu(x)).backward();
  sum(F::relu(x)).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<float>{2}));
  x.clear_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, OverwritesParameterGradientsOnlyAfterClear) {
  Parameter w("W", random_tensor({2, 3}, 1));
  const Variable x(random_tensor({4, 3}, 2));
  w.grad_storage().fill(1e9);
  EXPECT_FALSE(w.has_grad());
  EXPECT_FALSE(w.grad().defined());
  sum(F::linear(x, w)).backward();
  const Tensor once = w.grad().clone();
  EXPECT_EQ(w.grad().raw(), w.grad_storage().raw());
  sum(F::linear(x, w)).backward();
  const Tensor twice = backend(Device::cpu()).add(once, once);
  EXPECT_LT(relative_error(w.grad(), twice), 1e-6);
  w.clear_grad();
  sum(F::linear(x, w)).backward();
  EXPECT_LT(relative_error(w.grad(), once), 1e-6);
}

TEST(Autograd, CallsReadyInBackwardOrderAfterTheLastUse) {
  Parameter w1("w1", random_tensor({3, 3}, 1)), b1("b1", random_tensor({3}, 2));
  Parameter w2("w2", random_tensor({3, 3}, 3)), unused("unused", Tensor::zeros({1}));
  const Variable x(random_tensor({2, 3}, 4));
  // w1 is used first and last, b1 first only, w2 in between.
  const Variable h = F::linear(F::linear(x, w1, b1), w2);
  const Variable loss = sum(F::linear(h, w1));
  std::vector<std::string> order;
  loss.backward(1, [&](Parameter& p) {
    EXPECT_TRUE(p.has_grad());
    order.push_back(p.name());
  });
  EXPECT_EQ(order, (std::vector<std::string>{"w2", "b1", "w1"}));
  EXPECT_FALSE(unused.has_grad());
  unused.grad_storage().fill(3);
  unused.fill_missing_grad();
  EXPECT_EQ(values(unused.grad()), (std::vector<float>{0}));
}

// So that the exchange of weights can start while their input's gradient is computed.
TEST(Autograd, CallsReadyOnceWeightGradientsAreWritten) {
  std::vector<std::string> events;
  class TwoParts final : public Function {
   public:
    explicit TwoParts(std::vector<std::string>& events) : events_(events) {}
    const char* name() const override { return "two parts"; }
    void backward(const Tensor& gradient, Gradients& gradients) override {
      gradients.add(1, gradient);
      gradients.written(1);
      events_.emplace_back("the input's gradient");
      gradients.add(0, gradient);
    }

   private:
    std::vector<std::string>& events_;
  };
  Parameter early("early", Tensor::full({}, 1)), twice("twice", Tensor::full({}, 1));
  const Variable x(Tensor::full({}, 1), true);
  const auto apply = [&](const Variable& input, const Variable& weight) {
    return Function::record(Tensor::full({}, 1), {input, weight},
                            [&] { return std::make_unique<TwoParts>(events); });
  };
  const Variable result = apply(apply(apply(x, twice), early), twice);
  result.backward(1, [&](Parameter& ready) { events.push_back(ready.name()); });
  EXPECT_EQ(events,
            (std::vector<std::string>{"the input's gradient", "early", "the input's gradient",
                                      "twice", "the input's gradient"}));
  EXPECT_EQ(twice.grad().item(), 2);
}

TEST(Autograd, SumsBothUsesOfASharedParameter) {
  Parameter w("W", random_tensor({3, 3}, 1));
  const Tensor x = random_tensor({2, 3}, 2), y = random_tensor({2, 3}, 3);
  sum(F::linear(Variable(x), w) + F::linear(Variable(y), w)).backward();
  const Tensor both = w.grad().clone();
  w.clear_grad();
  sum(F::linear(Variable(x), w)).backward();
  sum(F::linear(Variable(y), w)).backward();
  EXPECT_LT(relative_error(both, w.grad()), 1e-6);
}

// Weights that are not a parameter get a tensor of their own.
TEST(Autograd, AcceptsAnyVariableAsWeights) {
  Parameter w("W", random_tensor({3, 4}, 1));
  const Variable x(random_tensor({2, 4}, 2));
  const Variable leaf(w.value().clone(), true);
  sum(F::linear(x, w)).backward();
  sum(F::linear(x, F::relu(leaf) + leaf)).backward();
  sum(F::linear(x, leaf)).backward();
  EXPECT_EQ(leaf.grad().shape(), w.value().shape());
  Tensor expected = w.grad().clone();
  for (std::size_t i = 0; i < expected.span<float>().size(); ++i)
    expected.span<float>()[i] *= w.value().span<float>()[i] > 0 ? 3.0f : 2.0f;
  EXPECT_LT(relative_error(leaf.grad(), expected), 1e-6);
}

TEST(Autograd, NoGradRecordsNothing) {
  Parameter w("W", random_tensor({3, 3}, 1));
  const Variable x(random_tensor({2, 3}, 2));
  {
    NoGrad outer;
    { NoGrad inner; }
    const Variable y = sum(F::linear(x, w));
    EXPECT_FALSE(y.requires_grad());
    EXPECT_THROW(y.backward(), Error);
  }
  EXPECT_TRUE(F::linear(x, w).requires_grad());
}

TEST(Autograd, RecordsNothingForInputsWithoutGradient) {
  const Variable x(random_tensor({2, 3}, 2));
  EXPECT_FALSE(F::relu(x).requires_grad());
}

TEST(Autograd, RejectsSecondBackward) {
  const Variable x(Tensor::full({1}, 1), true);
  const Variable h = F::relu(x);
  const Variable loss = sum(h);
  loss.backward();
  EXPECT_THROW(loss.backward(), Error);
  EXPECT_THROW(sum(h).backward(), Error) << "through a part of the graph that is gone";
}

TEST(Autograd, RejectsBackwardFromNonScalars) {
  const Variable x(Tensor::full({2}, 1), true);
  EXPECT_THROW(F::relu(x).backward(), Error);
  EXPECT_THROW(x.backward(), Error);
  EXPECT_THROW(Variable().backward(), Error);
}

// A hook that throws ends the pass; the next forward and backward pass are as if it never was.
TEST(Autograd, LeavesNoStateAfterAThrowingHook) {
  Parameter w("W", random_tensor({3, 3}, 1));
  const Variable x(random_tensor({2, 3}, 2));
  EXPECT_THROW(sum(F::linear(F::relu(F::linear(x, w)), w))
                   .backward(1, [](Parameter&) { throw std::runtime_error("no"); }),
               std::runtime_error);
  w.clear_grad();
  sum(F::linear(x, w)).backward();
  const Tensor after = w.grad().clone();
  Parameter fresh("W", w.value().clone());
  sum(F::linear(x, fresh)).backward();
  EXPECT_LT(relative_error(after, fresh.grad()), 1e-6);
}

TEST(Autograd, ReleasesDeepGraphsWithoutRecursion) {
  const Variable x(Tensor::full({1}, 1), true);
  Variable y = x;
  for (int i = 0; i < 100'000; ++i) y = F::reshape(y, {1});
  y = {};  // never differentiated
  y = x;
  for (int i = 0; i < 100'000; ++i) y = F::reshape(y, {1});
  sum(y).backward();
  EXPECT_EQ(values(x.grad()), (std::vector<float>{1}));
}

TEST(Autograd, ReleasesAllMemory) {
  Parameter w("W", random_tensor({64, 64}, 1));
  const Variable x(random_tensor({32, 64}, 2));
  const auto step = [&] {
    w.clear_grad();
    const Variable h = F::relu(F::linear(x, w));
    sum(F::linear(h, w) + h).backward();
    const Variable dropped = F::relu(F::linear(x, w));  // a graph that is never differentiated
  };
  step();
  const std::size_t before = host_pool_statistics().in_use;
  for (int i = 0; i < 10; ++i) step();
  EXPECT_EQ(host_pool_statistics().in_use, before);
}

// The output of linear is not needed once relu has run: the graph must not hold it.
TEST(Autograd, GraphKeepsOnlySavedTensors) {
  Parameter w("W", random_tensor({64, 64}, 1));
  const Variable x(random_tensor({256, 64}, 2));
  { const Variable warm = F::relu(F::linear(x, w)); }
  const std::size_t before = host_pool_statistics().in_use;
  const Variable y = F::relu(F::linear(x, w));
  const std::size_t result = std::size_t{256} * 64 * sizeof(float);
  EXPECT_LT(host_pool_statistics().in_use - before, 2 * result);
}

TEST(Autograd, GraphOutlivesItsParameters) {
  const Variable x(random_tensor({2, 3}, 2));
  Variable loss;
  {
    Parameter w("W", random_tensor({3, 3}, 1));
    loss = sum(F::linear(x, w));
  }
  int fired = 0;
  loss.backward(1, [&](Parameter&) { ++fired; });
  EXPECT_EQ(fired, 0);
}

TEST(Autograd, MoveToKeepsValuesAndGradient) {
  Parameter w("W", random_tensor({3, 3}, 1));
  const Variable alias = w;
  const Variable x(random_tensor({2, 3}, 2));
  sum(F::linear(x, w)).backward();
  const std::vector<float> value = values(w.value()), grad = values(w.grad());
  const Tensor arena = Tensor::zeros({18});
  w.move_to(arena.slice(0, 9).reshape({3, 3}), arena.slice(9, 18).reshape({3, 3}));
  EXPECT_EQ(values(w.value()), value);
  EXPECT_EQ(values(w.grad()), grad);
  EXPECT_EQ(alias.value().raw(), arena.raw()) << "copies of the Variable see the move";
  EXPECT_THROW(w.move_to(arena.slice(0, 8), arena.slice(9, 17)), Error);
}

TEST(Autograd, AcceptsEmptyBatches) {
  Parameter w("W", random_tensor({3, 4}, 1)), b("b", random_tensor({3}, 1));
  const Variable x(Tensor::empty({0, 4}), true);
  const Variable loss =
      F::softmax_cross_entropy(F::relu(F::linear(x, w, b)), Tensor::empty({0}, DType::int64));
  EXPECT_EQ(loss.value().item(), 0);
  loss.backward();
  EXPECT_EQ(x.grad().shape(), x.shape());
  EXPECT_EQ(values(w.grad()), std::vector<float>(12, 0));
  EXPECT_EQ(values(b.grad()), std::vector<float>(3, 0));
}

TEST(Autograd, MeanSquaredErrorHandlesEmptyAndMismatchedInputs) {
  const Variable y(Tensor::empty({0, 3}), true);
  const Variable loss = F::mean_squared_error(y, Tensor::empty({0, 3}));
  EXPECT_EQ(loss.value().item(), 0);
  loss.backward();
  EXPECT_EQ(y.grad().shape(), y.shape());
  // N predictions beside N x 1 targets would make N x N differences in other frameworks.
  EXPECT_THROW(F::mean_squared_error(Variable(Tensor::zeros({4, 1})), Tensor::zeros({4})), Error);
}

TEST(Autograd, MeanSquaredErrorDoesNotChangeItsArguments) {
  const Tensor y = random_tensor({3, 2}, 1), t = random_tensor({3, 2}, 2);
  const std::vector<float> before = values(y), targets = values(t);
  const Variable x(y, true);
  F::mean_squared_error(x, t).backward();
  EXPECT_EQ(values(y), before);
  EXPECT_EQ(values(t), targets);
  const std::vector<float> gradient = values(x.grad());
  for (std::size_t i = 0; i < gradient.size(); ++i)
    EXPECT_FLOAT_EQ(gradient[i], (before[i] - targets[i]) / 3);
}

}  // namespace
}  // namespace tasuki
