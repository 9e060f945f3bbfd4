// Steps whose loss or gradients are not finite: left out on all ranks, with nothing changed.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "communicators.hpp"
#include "nn/functions/arithmetic.hpp"
#include "perceptron.hpp"
#include "prescribed.hpp"
#include "tests/support/errors.hpp"

namespace tasuki {
namespace {

using testing::loss_with_gradients;
using testing::Perceptron;
using testing::Vectors;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using Numbers = std::vector<float>;
Numbers numbers(const Tensor& array) {
  const auto values = array.span<float>();
  return {values.begin(), values.end()};
}

class SkippedSteps : public testing::WithCommunicator {
 protected:
  struct Way {
    const char* name;
    ExchangeSettings exchange = {};
    bool shards = false, shares = false, scales = false;
  };
  // Everything that a step changes.
  struct State {
    std::vector<Numbers> arrays;
    std::int64_t t = 0;
    std::optional<double> rate;
    bool operator==(const State&) const = default;
  };

  std::unique_ptr<Optimizer> made(Module& model, const Way& way) {
    auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator_);
    optimizer->set_exchange(way.exchange);
    optimizer->states().shard(way.shards);
    optimizer->weights().share(way.shares);
    optimizer->setup(model);
    if (way.scales) optimizer->guard().scale_losses({.initial = 1024, .rule = {}});
    optimizer->guard().skip_non_finite();
    return optimizer;
  }
  static State state_of(const Optimizer& optimizer) {
    State state{{numbers(optimizer.arena().values())}, optimizer.t(), optimizer.learning_rate()};
    for (const std::string& name : optimizer.states().names())
      state.arrays.push_back(numbers(optimizer.states().gather(name)));
    for (const auto& [path, buffer] : optimizer.model().buffers())
      if (buffer->dtype() == DType::float32) state.arrays.push_back(numbers(*buffer));
    return state;
  }
  int bad_rank() const { return size() - 1; }
};

constexpr std::int64_t batch = 3;

TEST_P(SkippedSteps, LeaveNoTrace) {
  const Way ways[] = {{"as default"},
                      {"in ranges", {.mode = ExchangeMode::slices, .range_bytes = 64}},
                      {"by a thread", {.mode = ExchangeMode::thread, .range_bytes = 64}},
                      {"in large ranges", {.mode = ExchangeMode::whole, .range_bytes = 2048}},
                      {"sharded", {}, true},
                      {"shared", {}, false, true},
                      {"sharded and shared", {}, true, true},
                      {"scaled", {}, false, false, true}};
  for (const Way& way : ways) {
    SCOPED_TRACE(way.name);
    const auto train = [&](bool has_bad_steps) {
      Perceptron model({.inputs = 10, .hidden = 70, .classes = 3});
      const auto optimizer = made(model, way);
      std::int64_t skipped = 0;
      for (std::uint64_t step = 0; step < 6; ++step) {
        const bool is_bad = step == 2 || step == 3;
        if (is_bad && !has_bad_steps) continue;
        const auto examples = model.examples(batch, step, static_cast<std::uint64_t>(rank()));
        if (is_bad && rank() == bad_rank()) examples.x.data<float>()[4] = not_a_number;
        // A rank without examples knows of it, too.
        const bool is_idle = step == 3 && rank() == 0 && size() > 1;
        const State before = state_of(*optimizer);
        optimizer->update([&] { return model.loss(examples, step == 4); }, is_idle ? 0 : batch);
        if (is_bad) {
          EXPECT_EQ(state_of(*optimizer), before);
          ++skipped;
        }
        EXPECT_EQ(optimizer->guard().skipped(), skipped);
        EXPECT_EQ(optimizer->t(), before.t + (is_bad ? 0 : 1));
      }
      // The scale itself is another one.
      return state_of(*optimizer);
    };
    EXPECT_EQ(train(true), train(false));
  }
}

// Whatever the gradient is and wherever it stands.
TEST_P(SkippedSteps, AreDetectedInLossesAndGradients) {
  struct Case {
    float loss;          // on the bad rank
    float gradient;      // there, of one element
    bool is_everywhere;  // on the other ranks, too
    bool is_skipped;
  };
  const Case cases[] = {
      {0, 1, false, false},         {not_a_number, 1, false, true}, {infinity, 1, false, true},
      {-infinity, 1, false, true},  {0, not_a_number, false, true}, {0, -infinity, false, true},
      {1e30F, 3e38F, false, false}, {0, 3e38F, true, size() > 1},
  };
  for (const auto& [loss, gradient, is_everywhere, is_skipped] : cases) {
    for (const std::int64_t place : {0, 20, 39}) {
      SCOPED_TRACE(fmt::format("loss {}, gradient {} at {}", loss, gradient, place));
      Vectors model({17, 23});
      const auto optimizer = made(model, {});
      const bool is_bad = rank() == bad_rank();
      const Tensor gradients[] = {Tensor::full({17}, 1), Tensor::full({23}, 1)};
      if (is_bad || is_everywhere)
        gradients[place < 17 ? 0 : 1].data<float>()[place < 17 ? place : place - 17] = gradient;
      const State before = state_of(*optimizer);
      optimizer->update(
          [&, loss = loss] {
            return loss_with_gradients({{&model[0], gradients[0]}, {&model[1], gradients[1]}}) +
                   Variable(Tensor::full({}, is_bad ? loss : 0));
          },
          1);
      EXPECT_EQ(optimizer->guard().skipped(), is_skipped ? 1 : 0);
      EXPECT_EQ(state_of(*optimizer) == before, is_skipped);
    }
  }
}

// What is not finite in other values that ranks add up says nothing about a step.
TEST_P(SkippedSteps, IgnoreOtherNonFiniteValues) {
  Vectors model({17, 23});
  const auto optimizer = made(model, {});
  for (int step = 0; step < 3; ++step) {
    communicator_->allreduce(Tensor::full({40}, not_a_number));
    communicator_->sum_gradients({.arena = Tensor::full({56}, infinity)});
    optimizer->update(
        [&] {
          return loss_with_gradients(
              {{&model[0], Tensor::full({17}, 1)}, {&model[1], Tensor::full({23}, 1)}});
        },
        1);
  }
  EXPECT_EQ(optimizer->guard().skipped(), 0);
}

// Without forward(), in an own loop and without a StepScope.
TEST_P(SkippedSteps, AreDetectedWithoutForward) {
  Vectors model({17, 23});
  const auto optimizer = made(model, {});
  for (int step = 0; step < 4; ++step) {
    const bool is_bad = step == 1;
    const State before = state_of(*optimizer);
    const Tensor gradient = Tensor::full({17}, is_bad && rank() == bad_rank() ? infinity : 1);
    optimizer->update(
        optimizer->backward_and_exchange(loss_with_gradients({{&model[0], gradient}}), 1));
    EXPECT_EQ(optimizer->guard().skipped(), step >= 1 ? 1 : 0);
    EXPECT_EQ(state_of(*optimizer) == before, is_bad);
  }
}

// Of several batches in a step, any may be the bad one.
TEST_P(SkippedSteps, CoverAllBatchesOfAStep) {
  for (const int bad_batch : {0, 1, 2}) {
    Perceptron model({.inputs = 10, .hidden = 70, .classes = 3});
    const auto optimizer = made(model, {});
    const State before = state_of(*optimizer);
    StepScope step;
    for (int number = 0; number < 3; ++number) {
      const auto examples = model.examples(batch, static_cast<std::uint64_t>(number),
                                           static_cast<std::uint64_t>(rank()));
      if (number == bad_batch && rank() == bad_rank()) examples.x.data<float>()[0] = not_a_number;
      const Variable loss = optimizer->forward([&] { return model.loss(examples, false); }, batch);
      if (number < 2)
        optimizer->backward(loss, batch);
      else
        optimizer->update(optimizer->backward_and_exchange(loss, batch));
    }
    step.succeeded();
    EXPECT_EQ(optimizer->guard().skipped(), 1);
    EXPECT_EQ(state_of(*optimizer), before);
  }
}

// Ranks with other parts of the model exchange no gradients with the one that has the bad loss.
TEST_P(SkippedSteps, CoverAllPartsOfAModel) {
  if (size() % 2 != 0) return;
  const auto replicas = communicator_->split(rank() % 2, rank());
  const auto parts = communicator_->split(rank() / 2, rank());
  Vectors model({17 + rank() % 2, 23});
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *replicas);
  optimizer->setup(model);
  optimizer->guard().skip_non_finite(parts.get());
  for (int step = 0; step < 4; ++step) {
    const bool is_bad = step == 1;
    const State before = state_of(*optimizer);
    optimizer->update(
        [&] {
          const Tensor ones = Tensor::full(model[0].shape(), 1);
          return loss_with_gradients({{&model[0], ones}}) +
                 Variable(Tensor::full({}, is_bad && rank() == bad_rank() ? not_a_number : 0));
        },
        1);
    EXPECT_EQ(optimizer->guard().skipped(), step >= 1 ? 1 : 0);
    EXPECT_EQ(state_of(*optimizer) == before, is_bad);
  }
}

TEST_P(SkippedSteps, AreRejectedWithStateForTheNextStep) {
  if (size() == 1) return;
  for (const ExchangeSettings& exchange : {ExchangeSettings{.mode = ExchangeMode::double_buffered},
                                           ExchangeSettings{.power_sgd_rank = 1}}) {
    Vectors model({17, 23});
    const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *communicator_);
    optimizer->set_exchange(exchange);
    optimizer->setup(model);
    testing::expect_error(ErrorKind::usage, {"--on-nan skip", "leave one out"},
                          [&] { optimizer->guard().skip_non_finite(); });
  }
  const auto dummy = create_communicator("dummy");
  Vectors model({17, 23});
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *dummy);
  optimizer->setup(model);
  testing::expect_error(ErrorKind::usage, {"--communicator dummy"},
                        [&] { optimizer->guard().skip_non_finite(); });
}

INSTANTIATE_TEST_SUITE_P(All, SkippedSteps, ::testing::ValuesIn(testing::summing_communicators()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace tasuki
