#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/loss.hpp"
#include "nn/functions/normalization.hpp"
#include "nn/normalization.hpp"
#include "nn/random.hpp"
#include "nn/sequential.hpp"
#include "reference.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::random_tensor;
using testing::relative_error;

std::vector<std::string> paths(const Module& module) {
  std::vector<std::string> found;
  for (const auto& [path, parameter] : module.parameters()) found.push_back(path);
  return found;
}

TEST(Module, UsesChainersPaths) {
  const Classifier model(std::make_unique<MLP>());
  EXPECT_EQ(paths(model),
            (std::vector<std::string>{"predictor/l1/W", "predictor/l1/b", "predictor/l2/W",
                                      "predictor/l2/b", "predictor/l3/W", "predictor/l3/b"}));
  EXPECT_EQ(model.parameter_count(), 1'796'010);
  BatchNorm layer(4);
  ASSERT_EQ(layer.buffers().size(), 3u);
  EXPECT_EQ(layer.buffers()[0].path, "avg_mean");
  EXPECT_EQ(layer.buffers()[1].path, "avg_var");
  EXPECT_EQ(layer.buffers()[2].path, "N");
}

TEST(Module, ChecksNamesWhenSplitIntoParts) {
  Sequential net;
  net.append("a", std::make_unique<Linear>(2, 2));
  EXPECT_THROW(net.append("a", std::make_unique<Linear>(2, 2)), Error);
  EXPECT_THROW(net.append("a/b", std::make_unique<Linear>(2, 2)), Error);
  EXPECT_THROW(net.append("", std::make_unique<Linear>(2, 2)), Error);
}

std::vector<float> values_of(const Tensor& tensor) {
  const std::span<const float> values = tensor.span<float>();
  return {values.begin(), values.end()};
}

// In one pass or in two: the same bits, forward and backward, also where gradients are added up.
TEST(Linear, FusedReluMatchesRelu) {
  for (const bool bias : {true, false}) {
    Sequential fused, apart;
    fused.append("l", std::make_unique<Linear>(7, 5, bias, initializers::lecun_normal(), true));
    apart.append("l", std::make_unique<Linear>(7, 5, bias)).append(F::relu);
    fused.initialize(4);
    apart.initialize(4);
    const Tensor x = random_tensor({9, 7}, 1), t = Tensor::full({9}, 3, DType::int32);
    const Variable of_fused(x, true), of_apart(x, true);
    const Variable y = fused(of_fused), z = apart(of_apart);
    EXPECT_EQ(values_of(y.value()), values_of(z.value()));
    EXPECT_GT(std::ranges::count(values_of(y.value()), 0.0f), 0);
    for (int pass = 0; pass < 2; ++pass) {
      F::softmax_cross_entropy(fused(of_fused), t).backward(9);
      F::softmax_cross_entropy(apart(of_apart), t).backward(9);
    }
    EXPECT_EQ(values_of(of_fused.grad()), values_of(of_apart.grad()));
    const auto left = fused.parameters(), right = apart.parameters();
    for (std::size_t i = 0; i < left.size(); ++i)
      EXPECT_EQ(values_of(left[i].parameter->grad()), values_of(right[i].parameter->grad()));
  }
}

// A parameter's first values depend on the seed and its path, not on what else the model has.
TEST(Module, InitializationDependsOnlyOnSeedAndPath) {
  Sequential small, large, other;
  small.append("b", std::make_unique<Linear>(5, 4));
  large.append("a", std::make_unique<Linear>(5, 5)).append("b", std::make_unique<Linear>(5, 4));
  other.append("c", std::make_unique<Linear>(5, 4));
  for (Sequential* net : {&small, &large, &other}) net->initialize(3);
  const auto weights = [](const Sequential& net, std::size_t i) {
    return net.parameters()[i].parameter->value();
  };
  EXPECT_EQ(relative_error(weights(small, 0), weights(large, 2)), 0);
  EXPECT_GT(relative_error(weights(small, 0), weights(other, 0)), 0.1);
  const Tensor before = weights(small, 0).clone();
  small.initialize(4);
  EXPECT_GT(relative_error(weights(small, 0), before), 0.1);
  small.initialize(3);
  EXPECT_EQ(relative_error(weights(small, 0), before), 0);
}

struct Moments {
  double mean, deviation, largest;
};
Moments moments(const Tensor& tensor) {
  double total = 0, squares = 0, largest = 0;
  for (const float value : tensor.span<float>()) {
    total += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  const auto n = static_cast<double>(tensor.count());
  return {total / n, std::sqrt(squares / n - total / n * total / n), largest};
}

TEST(Initializers, StandardDeviations) {
  // 40 x 6 x 5 x 5: fan_in 150, fan_out 1000.
  const Tensor w = Tensor::empty({40, 6, 5, 5});
  const auto check = [&](const Initializer& initializer, double expected, bool uniform) {
    initializer(w, 1, 2);
    const auto [mean, deviation, largest] = moments(w);
    EXPECT_NEAR(mean, 0, 5 * expected / std::sqrt(6000.0));
    EXPECT_NEAR(deviation, expected, 0.05 * expected);
    if (uniform)
      EXPECT_LE(largest, expected * std::sqrt(3.0) * 1.000001);
    else
      EXPECT_GT(largest, 3 * expected);
  };
  using namespace initializers;
  check(lecun_normal(), std::sqrt(1 / 150.0), false);
  check(lecun_normal(2), 2 * std::sqrt(1 / 150.0), false);
  check(lecun_uniform(), std::sqrt(1 / 150.0), true);
  check(glorot_normal(), std::sqrt(2 / 1150.0), false);
  check(glorot_uniform(), std::sqrt(2 / 1150.0), true);
  check(he_normal(), std::sqrt(2 / 150.0), false);
  check(he_uniform(), std::sqrt(2 / 150.0), true);
  check(normal(0.3), 0.3, false);
  check(uniform(0.3), 0.3 / std::sqrt(3.0), true);
}

TEST(Initializers, Constants) {
  const Tensor w = Tensor::empty({5});
  for (const auto& [initializer, value] :
       {std::pair{initializers::zero(), 0.0f}, std::pair{initializers::one(), 1.0f},
        std::pair{initializers::constant(0.5), 0.5f}}) {
    initializer(w, 1, 2);
    for (const float element : w.span<float>()) EXPECT_EQ(element, value);
  }
}

TEST(Initializers, Orthogonal) {
  for (const Shape& shape : {Shape{6, 4, 2, 2}, Shape{20, 7}, Shape{5, 5}}) {
    const Tensor w = Tensor::empty(shape);
    initializers::orthogonal(2)(w, 1, 2);
    const std::int64_t rows = shape[0], columns = shape.count_per_item();
    const bool by_rows = rows <= columns;
    const std::int64_t vectors = by_rows ? rows : columns, size = by_rows ? columns : rows;
    const auto at = [&](std::int64_t vector, std::int64_t k) {
      return static_cast<double>(
          w.data<float>()[by_rows ? vector * columns + k : k * columns + vector]);
    };
    for (std::int64_t i = 0; i < vectors; ++i) {
      for (std::int64_t j = 0; j < vectors; ++j) {
        double dot = 0;
        for (std::int64_t k = 0; k < size; ++k) dot += at(i, k) * at(j, k);
        EXPECT_NEAR(dot, i == j ? 4 : 0, 1e-5);
      }
    }
  }
}

TEST(Initializers, RejectFansOfFewerThanTwoAxes) {
  EXPECT_THROW(initializers::lecun_normal()(Tensor::empty({5}), 1, 2), Error);
  EXPECT_THROW(initializers::orthogonal()(Tensor::empty({5}), 1, 2), Error);
}

TEST(Layers, GiveTheShapesOfAConvnet) {
  Sequential net;
  net.append("conv", std::make_unique<Conv2d>(3, 8, 3, 2, 1))
      .append("norm", std::make_unique<BatchNorm>(8))
      .append([](const Variable& x) { return F::relu(x); })
      .append("out", std::make_unique<Linear>(8 * 5 * 4, 7));
  net.initialize(1);
  EXPECT_EQ(net(Variable(random_tensor({2, 3, 9, 8}, 1))).shape(), (Shape{2, 7}));
  EXPECT_EQ(paths(net), (std::vector<std::string>{"conv/W", "conv/b", "norm/gamma", "norm/beta",
                                                  "out/W", "out/b"}));
}

TEST(Layers, ComputeTheSameWithReluInConvolutionsAsAfterThem) {
  const auto results = [](bool inside) {
    Conv2d layer(3, 8, 3, 2, 1, true, initializers::lecun_normal(), inside);
    layer.initialize(1);
    const Variable x(random_tensor({2, 3, 9, 8}, 1), true);
    const Variable y = inside ? layer(x) : F::relu(layer(x));
    F::sum(y * Variable(random_tensor(y.shape(), 2))).backward();
    std::vector<Tensor> all = {y.value(), x.grad()};
    for (const auto& named : layer.parameters()) all.push_back(named.parameter->grad());
    return all;
  };
  const std::vector<Tensor> inside = results(true), after = results(false);
  ASSERT_EQ(inside.size(), 4U);
  for (std::size_t i = 0; i < inside.size(); ++i)
    EXPECT_EQ(relative_error(inside[i], after[i]), 0) << i;
}

// Everything but the shape is that of a layer which was told its input.
TEST(LazyLayers, TakeTheirShapeFromTheFirstInput) {
  const auto make = [](bool lazy) {
    auto net = std::make_unique<Sequential>();
    const auto size = [lazy](std::int64_t n) { return lazy ? std::nullopt : std::optional(n); };
    Conv2d::Settings grouped;
    grouped.options.groups = 2;
    net->append("conv", std::make_unique<Conv2d>(size(3), 8, 3, 2, 1))
        .append("grouped", std::make_unique<Conv2d>(size(8), 4, 1, 1, grouped))
        .append("out", std::make_unique<Linear>(size(4 * 5 * 4), 7));
    net->initialize(1);
    return net;
  };
  const auto lazy = make(true), told = make(false);
  EXPECT_EQ(paths(*lazy), (std::vector<std::string>{"conv/b", "grouped/b", "out/b"}));
  const auto unshaped = lazy->unshaped_parameters();
  ASSERT_EQ(unshaped.size(), 3u);
  EXPECT_EQ(unshaped[0].path, "conv/W");
  EXPECT_EQ(unshaped[0].parameter->shape_text(), "8x?x3x3");
  EXPECT_EQ(unshaped[2].parameter->shape_text(), "7x?");

  const Variable x(random_tensor({2, 3, 9, 8}, 1));
  const Tensor expected = (*told)(x).value();
  for (int pass = 0; pass < 2; ++pass) EXPECT_EQ(relative_error((*lazy)(x).value(), expected), 0);
  EXPECT_EQ(paths(*lazy), paths(*told));
  EXPECT_TRUE(lazy->unshaped_parameters().empty());
  for (std::size_t i = 0; i < 6; ++i) {
    const Parameter& here = *lazy->parameters()[i].parameter;
    const Parameter& there = *told->parameters()[i].parameter;
    EXPECT_EQ(here.shape(), there.shape());
    EXPECT_EQ(values_of(here.value()), values_of(there.value())) << here.name();
    EXPECT_FALSE(here.has_grad());
  }
}

TEST(LazyLayers, TakeTheirShapeFromAnEmptyBatch) {
  Linear layer(std::nullopt, 5);
  layer.initialize(1);
  EXPECT_EQ(layer(Variable(Tensor::empty({0, 2, 3}))).shape(), (Shape{0, 5}));
  EXPECT_EQ(layer.parameters()[0].parameter->shape(), (Shape{5, 6}));
}

TEST(LazyLayers, CanBeReinitializedOnceTheyHaveAShape) {
  Linear layer(std::nullopt, 5);
  const Variable x(random_tensor({2, 3}, 1));
  layer(x);
  EXPECT_EQ(values_of(layer.parameters()[0].parameter->value()), std::vector<float>(15, 0));
  layer.initialize(1);
  EXPECT_GT(moments(layer.parameters()[0].parameter->value()).largest, 0);
}

TEST(LazyLayers, RejectLaterInputsOfOtherShapes) {
  Linear layer(std::nullopt, 5);
  layer(Variable(random_tensor({2, 3}, 1)));
  EXPECT_THROW(layer(Variable(random_tensor({2, 4}, 1))), Error);
  Conv2d::Settings settings;
  settings.options.groups = 2;
  Conv2d convolution(std::nullopt, 4, 3, 3, settings);
  EXPECT_THROW(convolution(Variable(random_tensor({2, 3, 5, 5}, 1))), Error);
  EXPECT_THROW(convolution(Variable(random_tensor({2, 4}, 1))), Error);
  EXPECT_EQ(convolution(Variable(random_tensor({2, 6, 5, 5}, 1))).shape(), (Shape{2, 4, 3, 3}));
}

TEST(LazyLayers, RejectMismatchedShapes) {
  Parameter parameter("W", Shape{4, 0, 3});
  for (const Shape& shape : {Shape{5, 2, 3}, Shape{4, 2}, Shape{4, 0, 3}, Shape{4, 2, 3, 1}}) {
    EXPECT_FALSE(parameter.accepts(shape)) << shape.text();
    EXPECT_THROW(parameter.set_shape(shape), Error) << shape.text();
  }
  parameter.set_shape({4, 9, 3});
  EXPECT_THROW(parameter.set_shape({4, 9, 3}), Error);
  EXPECT_THROW(Parameter("b", Shape{4}), Error);
}

TEST(Layers, WorkWithoutBias) {
  EXPECT_EQ(paths(Linear(2, 3, false)), std::vector<std::string>{"W"});
  EXPECT_EQ(paths(Conv2d(2, 3, 3, 1, 0, false)), std::vector<std::string>{"W"});
}

TEST(Layers, RejectChannelsNotDivisibleByGroups) {
  Conv2d::Settings settings;
  settings.options.groups = 2;
  EXPECT_THROW(Conv2d(3, 4, 3, 3, settings), Error);
}

TEST(BatchNormLayer, KeepsRunningStatisticsForEmptyBatches) {
  BatchNorm layer(3);
  layer.initialize(1);
  EXPECT_EQ(layer(Variable(Tensor::empty({0, 3, 2, 2}))).shape(), (Shape{0, 3, 2, 2}));
  EXPECT_EQ(moments(*layer.buffers()[0].tensor).largest, 0);
}

TEST(BatchNormLayer, RejectsBackwardInEvaluation) {
  BatchNorm layer(3);
  layer.initialize(1);
  const TrainingMode evaluation(false);
  const Tensor x = random_tensor({2, 3}, 1);
  EXPECT_THROW(testing::weighted_sum(layer(Variable(x)), x).backward(), Error);
  const NoGrad no_grad;
  EXPECT_FALSE(layer(Variable(x)).requires_grad());
}

TEST(Classifier, ReportsCountsAndLosses) {
  Classifier model(std::make_unique<MLP>(4, 8, 3));
  model.initialize(1);
  const Variable x(random_tensor({6, 2, 2}, 1));
  const Tensor scores = model.predictor()(x).value();
  const Tensor t = Tensor::empty({6}, DType::int32);
  for (std::int64_t i = 0; i < 6; ++i) {
    const auto row = scores.span<float>().subspan(static_cast<std::size_t>(3 * i), 3);
    const auto best = std::ranges::max_element(row) - row.begin();
    t.data<std::int32_t>()[i] = static_cast<std::int32_t>(i < 4 ? best : (best + 1) % 3);
  }
  const auto result = model(x, t);
  EXPECT_EQ(result.correct.item(), 4);
  EXPECT_EQ(result.counted.item(), 6);
  EXPECT_EQ(result.examples, 6);
  EXPECT_EQ(F::accuracy(Variable(scores), t), 4.0 / 6);
  EXPECT_EQ(model(x, t.to(DType::int64)).loss.value().item(), result.loss.value().item());
}

TEST(Classifier, CountsOnlyLabelledExamples) {
  Classifier model(std::make_unique<MLP>(4, 8, 3));
  model.initialize(1);
  const Tensor t = Tensor::full({6}, -1, DType::int32);
  const Variable x(random_tensor({6, 4}, 1));
  EXPECT_EQ(model(x, t).counted.item(), 0);
  for (const int i : {1, 4}) t.data<std::int32_t>()[i] = 2;
  const auto result = model(x, t);
  EXPECT_EQ(result.counted.item(), 2);
  EXPECT_LE(result.correct.item(), 2);
  EXPECT_EQ(result.examples, 6);
}

TEST(Accuracy, CountsOnlyLabelledExamples) {
  const float scores[] = {3, 1, 1, 3, 3, 1};
  const Variable x(Tensor::from(std::span<const float>(scores), {3, 2}));
  const auto of = [&](std::vector<std::int32_t> labels) {
    return F::accuracy(x, Tensor::from(std::span<const std::int32_t>(labels), {3}));
  };
  EXPECT_EQ(of({0, 0, 0}), 2.0 / 3);
  EXPECT_EQ(of({0, 0, -1}), 1.0 / 2);
  EXPECT_EQ(of({-1, 0, -1}), 0);
  EXPECT_TRUE(std::isnan(of({-1, -1, -1})));
}

TEST(Classifier, ReportsOutOfRangeLabelsAsBadData) {
  Classifier model(std::make_unique<MLP>(4, 8, 3));
  model.initialize(1);
  const Tensor t = Tensor::full({2}, 3, DType::int32);
  try {
    model(Variable(random_tensor({2, 4}, 1)), t);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::data);
    EXPECT_NE(std::string(error.what()).find("label 3"), std::string::npos);
  }
}

TEST(Classifier, NamesShapesForABatchOfTheWrongWidth) {
  Classifier model(std::make_unique<MLP>(4, 8, 3));
  try {
    model(Variable(random_tensor({2, 5}, 1)), Tensor::zeros({2}, DType::int32));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("2x5"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("8x4"), std::string::npos) << error.what();
  }
}

// What is dropped of an example is the same in whatever batch it comes.
TEST(Dropout, DoesNotDependOnBatchComposition) {
  const Tensor x = Tensor::full({3, 50}, 1);
  const auto drop = [&](const Tensor& batch, const std::vector<std::int64_t>& ids,
                        std::int64_t epoch) {
    RandomKeys keys(9);
    keys.follow(epoch, ids);
    const RandomScope random(keys);
    return F::dropout(Variable(batch), 0.5f).value();
  };
  const Tensor all = drop(x, {10, 11, 12}, 1);
  const Tensor last = drop(x.slice(2, 3), {12}, 1);
  EXPECT_EQ(relative_error(all.slice(2, 3), last), 0);
  EXPECT_GT(relative_error(all.slice(0, 1), all.slice(1, 2)), 0.1);
  EXPECT_GT(relative_error(drop(x, {10, 11, 12}, 2), all), 0.1);
  RandomKeys keys(9);
  keys.follow(1, {});
  const RandomScope random(keys);
  const Variable first = F::dropout(Variable(x)), second = F::dropout(Variable(x));
  EXPECT_GT(relative_error(first.value(), second.value()), 0.1) << "two layers, one mask";
}

// A training loop that has no updater.
TEST(Dropout, RedrawsInEachPassOutsideAScope) {
  const Variable x(Tensor::full({3, 50}, 1));
  const Tensor first = F::dropout(x).value(), second = F::dropout(x).value();
  EXPECT_GT(relative_error(first, second), 0.1);
  EXPECT_GT(relative_error(first.slice(0, 1), first.slice(1, 2)), 0.1);
}

TEST(RandomScope, YieldsToTheEnclosingScope) {
  const std::uint64_t calls = random_calls();
  RandomKeys outer_keys(1), inner_keys(2);
  inner_keys.follow(3, {});
  const Variable x(Tensor::full({3, 50}, 1));
  const auto seed_of_next = [] {
    const Tensor seed = next_random_key(Device::cpu(), 3).seed;
    return seed.data<std::int64_t>()[0];
  };
  {
    const RandomScope outer(outer_keys);
    const Tensor first = F::dropout(x).value();
    {
      const RandomScope inner(inner_keys);
      EXPECT_EQ(random_calls(), 0u);
      EXPECT_GT(relative_error(F::dropout(x).value(), first), 0.1);
    }
    EXPECT_EQ(random_calls(), 1u);
    const std::int64_t second = seed_of_next();
    const RandomScope again(outer_keys);
    EXPECT_EQ(relative_error(F::dropout(x).value(), first), 0);
    EXPECT_EQ(seed_of_next(), second);
  }
  EXPECT_EQ(random_calls(), calls);
}

// More than fit into one page of seeds.
TEST(RandomScope, KeysDependOnSeedEpochExampleAndPosition) {
  const auto keys_of = [](std::uint64_t seed, std::int64_t epoch) {
    RandomKeys keys(seed);
    const std::vector<std::int64_t> ids = {7, 5};
    keys.follow(epoch, ids);
    const StepScope step;
    const RandomScope random(keys);
    std::vector<std::int64_t> seeds;
    for (int call = 0; call < 150; ++call) {
      const RandomKey key = next_random_key(Device::cpu(), 2);
      EXPECT_EQ(key.ids.data<std::int64_t>()[0], 7);
      EXPECT_EQ(key.ids.data<std::int64_t>()[1], 5);
      seeds.push_back(key.seed.data<std::int64_t>()[0]);
    }
    return seeds;
  };
  const auto first = keys_of(1, 0);
  EXPECT_EQ(keys_of(1, 0), first);
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), 150u);
  EXPECT_NE(keys_of(1, 1), first);
  EXPECT_NE(keys_of(2, 0), first);
}

TEST(Dropout, KeepsTheMeanAndIsDisabledInEvaluation) {
  const Variable x(Tensor::full({100, 1001}, 1));
  EXPECT_NEAR(moments(F::dropout(x, 0.3f).value()).mean, 1, 0.01);
  EXPECT_EQ(moments(F::dropout(x, 0.3f).value()).largest, static_cast<double>(1 / (1 - 0.3f)));
  const TrainingMode evaluation(false);
  EXPECT_EQ(F::dropout(x, 0.3f).value().raw(), x.value().raw());
  EXPECT_THROW(F::dropout(x, 1.0f), Error);
}

}  // namespace
}  // namespace tasuki
