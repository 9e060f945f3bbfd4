// Layers of LSTM and GRU: how they are stacked, what their parameters are called, and where in
// memory these may lie. tests/nn/sequence_reference_test.cpp checks the values of one layer.
#include "nn/n_step_rnn.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>

#include "nn/functions/arrays.hpp"
#include "nn/recurrent_steps.hpp"
#include "reference.hpp"
#include "tensor/backend.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::random_tensor;
using testing::relative_error;
using testing::weighted_sum;

const std::array<std::int64_t, 4> lengths = {3, 1, 5, 0};

Tensor lengths_tensor() {
  return Tensor::from(std::span<const std::int64_t>(lengths), {4});
}

std::map<std::string, Parameter*> parameters_of(const Module& module) {
  std::map<std::string, Parameter*> found;
  for (const auto& [path, parameter] : module.parameters()) found[path] = parameter;
  return found;
}

F::RecurrentWeights weights_of(const Module& module, const std::string& child, int number) {
  const auto parameters = parameters_of(module);
  F::RecurrentWeights weights;
  for (int i = 0; i < number; ++i) {
    weights.w.push_back(*parameters.at(child + "/w" + std::to_string(i)));
    weights.b.push_back(*parameters.at(child + "/b" + std::to_string(i)));
  }
  return weights;
}

TEST(NStepRnn, UsesChainersParameterNamesAndShapes) {
  const NStepLSTM lstm(2, 3, 5);
  const auto found = parameters_of(lstm);
  EXPECT_EQ(found.size(), 32U);
  EXPECT_EQ(found.at("0/w3")->shape(), (Shape{5, 3}));
  EXPECT_EQ(found.at("0/w4")->shape(), (Shape{5, 5}));
  EXPECT_EQ(found.at("1/w0")->shape(), (Shape{5, 5}));
  EXPECT_EQ(found.at("1/b7")->shape(), (Shape{5}));
  const NStepBiGRU gru(2, 3, 5);
  const auto both = parameters_of(gru);
  EXPECT_EQ(both.size(), 48U);
  EXPECT_EQ(both.at("1/w2")->shape(), (Shape{5, 3}));
  EXPECT_EQ(both.at("3/w2")->shape(), (Shape{5, 10}));
  EXPECT_EQ(both.at("3/w5")->shape(), (Shape{5, 5}));
}

TEST(NStepRnn, ConcatenatesBothDirectionsForTheNextLayer) {
  NStepBiGRU layers(2, 3, 5);
  layers.initialize(4);
  const Variable x(random_tensor({4, 6, 3}, 1));
  const Tensor t = lengths_tensor();
  const std::vector<Variable> states(4, Variable(random_tensor({4, 1, 5}, 2)));
  const auto result = layers(x, t, states);
  Variable y = x;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string forward = std::to_string(2 * layer), backward = std::to_string(2 * layer + 1);
    const auto a =
        F::recurrent(Recurrence::gru, y, t, states[0], weights_of(layers, forward, 6), false);
    const auto b =
        F::recurrent(Recurrence::gru, y, t, states[0], weights_of(layers, backward, 6), true);
    EXPECT_EQ(relative_error(result.states[2 * static_cast<std::size_t>(layer)].value(),
                             a.states.value()),
              0);
    EXPECT_EQ(relative_error(result.states[2 * static_cast<std::size_t>(layer) + 1].value(),
                             b.states.value()),
              0);
    y = F::concat({a.y, b.y}, 2);
  }
  EXPECT_EQ(relative_error(result.y.value(), y.value()), 0);
}

TEST(NStepRnn, IgnoresPadding) {
  NStepLSTM layers(2, 3, 5);
  layers.initialize(4);
  const Tensor x = random_tensor({4, 5, 3}, 1);
  const Tensor longer =
      backend(Device::cpu()).concat(std::array{x, random_tensor({4, 3, 3}, 9)}, 1);
  const auto a = layers(Variable(x), lengths_tensor());
  const auto b = layers(Variable(longer), lengths_tensor());
  EXPECT_EQ(relative_error(backend(Device::cpu()).take(b.y.value(), 1, 0, 5), a.y.value()), 0);
  EXPECT_EQ(relative_error(b.states[1].value(), a.states[1].value()), 0);
}

// Moves the parameters next to each other, in the reverse order of registration like an arena.
Tensor move_together(const Module& module) {
  std::int64_t count = 0;
  const auto parameters = module.parameters();
  for (const auto& [path, parameter] : parameters) count += parameter->value().count();
  const Tensor values = Tensor::empty({count}), gradients = Tensor::empty({count});
  for (auto at = parameters.rbegin(); at != parameters.rend(); ++at) {
    const Shape shape = at->parameter->shape();
    count -= shape.count();
    const std::int64_t begin = values.count() - count - shape.count();
    at->parameter->move_to(values.slice(begin, begin + shape.count()).reshape(shape),
                           gradients.slice(begin, begin + shape.count()).reshape(shape));
  }
  return gradients;
}

TEST(NStepRnn, GradientsDoNotDependOnParameterPlacement) {
  NStepLSTM apart(2, 3, 5), together(2, 3, 5);
  apart.initialize(7);
  together.initialize(7);
  const Tensor arena = move_together(together);
  for (const NStepLSTM* layers : {&apart, &together}) {
    layers->clear_grads();
    // The second pass adds to the gradients of the first.
    for (const std::uint64_t seed : {1, 2}) {
      const auto result = const_cast<NStepLSTM*>(layers)->forward(
          Variable(random_tensor({4, 5, 3}, seed)), lengths_tensor());
      weighted_sum(result.y, random_tensor({4, 5, 5}, seed + 5)).backward();
    }
  }
  const auto expected = parameters_of(apart);
  for (const auto& [path, parameter] : parameters_of(together)) {
    EXPECT_LT(relative_error(parameter->grad(), expected.at(path)->grad()), 1e-6) << path;
    EXPECT_GT(testing::inner_product(parameter->grad(), parameter->grad()), 0) << path;
    EXPECT_EQ(parameter->grad().storage(), arena.storage()) << path;
  }
}

TEST(NStepRnn, AppliesDropoutBetweenLayersOnlyInTraining) {
  NStepGRU one(1, 3, 5, 0.5F), two(2, 3, 5, 0.5F);
  one.initialize(3);
  two.initialize(3);
  const Variable x(random_tensor({4, 5, 3}, 1));
  const Tensor t = lengths_tensor();
  EXPECT_EQ(relative_error(one(x, t).y.value(), one(x, t).y.value()), 0);
  EXPECT_GT(relative_error(two(x, t).y.value(), two(x, t).y.value()), 0.01);
  const TrainingMode evaluation(false);
  EXPECT_EQ(relative_error(two(x, t).y.value(), two(x, t).y.value()), 0);
}

TEST(NStepRnn, MatchesWholeSequencesStepByStep) {
  const Tensor lengths_of_five = Tensor::full({4}, 5, DType::int64);
  const std::vector<std::int64_t> kept = {3, 1};
  const Tensor rows = Tensor::from(std::span<const std::int64_t>(kept), {2});
  Backend& cpu = backend(Device::cpu());
  for (const Recurrence kind : {Recurrence::lstm, Recurrence::gru}) {
    NStepRNN layers(kind, NStepRNN::Direction::forward, 2, 3, 5);
    layers.initialize(4);
    const Tensor x = random_tensor({4, 5, 3}, 1);
    const std::vector<Variable> states(2, Variable(random_tensor({4, states_of(kind), 5}, 2)));
    const Tensor whole = layers(Variable(x), lengths_of_five, states).y.value();
    const auto element = [&](const Tensor& of, std::int64_t t) {
      return cpu.take(of, 1, t, t + 1).reshape({of.shape()[0], of.shape()[2]});
    };
    RecurrentSteps steps(layers, states);
    for (std::int64_t t = 0; t < 2; ++t)
      EXPECT_LT(relative_error(steps.next(element(x, t)), element(whole, t)), 1e-6) << t;
    steps.keep(kept);
    const Tensor rest = cpu.gather(x, rows, DType::float32),
                 expected = cpu.gather(whole, rows, DType::float32);
    for (std::int64_t t = 2; t < 5; ++t)
      EXPECT_LT(relative_error(steps.next(element(rest, t)), element(expected, t)), 1e-6) << t;
  }
}

// The sequences of a batch may all be empty, and so may the batch.
TEST(NStepRnn, AcceptsEmptySequencesAndBatches) {
  for (const std::int64_t items : {3, 0})
    for (const std::int64_t steps : {0, 4}) {
      SCOPED_TRACE(std::to_string(items) + " examples of " + std::to_string(steps) + " elements");
      NStepLSTM layers(2, 3, 5);
      layers.initialize(1);
      layers.clear_grads();
      const Variable x(Tensor::zeros({items, steps, 3}), true);
      std::vector<Variable> first;
      for (std::uint64_t i = 0; i < 2; ++i)
        first.emplace_back(random_tensor({items, 2, 5}, i), true);
      const auto result = layers(x, Tensor::zeros({items}, DType::int64), first);
      EXPECT_EQ(result.y.shape(), (Shape{items, steps, 5}));
      for (std::size_t i = 0; i < 2; ++i)
        EXPECT_EQ(relative_error(result.states[i].value(), first[i].value()), 0);
      const Tensor weights = random_tensor({items, 2, 5}, 7);
      weighted_sum(result.states[1], weights).backward();
      EXPECT_EQ(relative_error(first[1].grad(), weights), 0);
      for (const auto& [path, parameter] : layers.parameters()) {
        if (!path.starts_with("1/")) continue;
        EXPECT_EQ(testing::inner_product(parameter->grad(), parameter->grad()), 0) << path;
      }
    }
}

TEST(NStepRnn, ComputesOnlyNeededGradients) {
  SequenceOperations& operations = backend(Device::cpu()).sequences();
  for (const Recurrence kind : {Recurrence::lstm, Recurrence::gru}) {
    const std::int64_t rows = gates_of(kind) * 5;
    const RecurrentLayer layer{kind,
                               false,
                               random_tensor({rows, 3}, 1),
                               random_tensor({rows, 5}, 2),
                               random_tensor({rows}, 3),
                               random_tensor({rows}, 4),
                               nullptr};
    std::shared_ptr<Workspace> workspace;
    operations.recurrent(layer, random_tensor({4, 5, 3}, 5), lengths_tensor(), Tensor(),
                         &workspace);
    const auto destinations = [&] {
      return RecurrentGradients{{Tensor::zeros({rows, 3})},
                                {Tensor::zeros({rows, 5})},
                                {Tensor::zeros({rows})},
                                {Tensor::zeros({rows})}};
    };
    const Tensor dy = random_tensor({4, 5, 5}, 6);
    const RecurrentGradients all = destinations();
    const auto complete = operations.recurrent_backward(layer, {dy, Tensor()}, *workspace, all);
    EXPECT_EQ(complete.dx.shape(), (Shape{4, 5, 3}));
    EXPECT_EQ(complete.dstates.shape(), (Shape{4, states_of(kind), 5}));

    RecurrentGradients weights = destinations();
    weights.needs_dx = weights.needs_dstates = false;
    weights.wx.tensor = weights.bh.tensor = Tensor();
    const auto none = operations.recurrent_backward(layer, {dy, Tensor()}, *workspace, weights);
    EXPECT_FALSE(none.dx || none.dstates);
    EXPECT_EQ(relative_error(weights.wh.tensor, all.wh.tensor), 0);
    EXPECT_EQ(relative_error(weights.bx.tensor, all.bx.tensor), 0);
  }
}

TEST(NStepRnn, NamesInvalidLengthsAndStates) {
  NStepLSTM layer(1, 3, 5);
  layer.initialize(1);
  const Variable x(random_tensor({1, 4, 3}, 1));
  const auto message = [&](const auto& run) -> std::string {
    try {
      run();
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_NE(message([&] {
              layer(x, Tensor::full({1}, 5, DType::int64));
            }).find("length 5 of example 0 is not in 0 .. 4"),
            std::string::npos);
  EXPECT_NE(message([&] {
              layer(x, Tensor::full({2}, 4, DType::int64));
            }).find("expected 1 lengths of int64, found 2"),
            std::string::npos);
  EXPECT_NE(message([&] {
              layer(x, Tensor::full({1}, 4, DType::int64), {Variable(random_tensor({1, 1, 5}, 1))});
            }).find("expected states of 1x2x5, found 1x1x5"),
            std::string::npos);
}

}  // namespace
}  // namespace tasuki
