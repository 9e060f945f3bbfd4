// Steps of shards: weights, states and running statistics with the bits of a single process.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <map>

#include "communicators.hpp"
#include "core/philox.hpp"
#include "nn/recompute.hpp"
#include "nn/sequential.hpp"
#include "optimizer/optimizer.hpp"
#include "perceptron.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

using testing::Perceptron;
using testing::PerceptronExamples;

// Layers are so large that their products are late (product_sums.hpp): of `l1` in all shards, of
// `sometimes` in some. `l2` is used twice, and the last layer is small.
constexpr testing::PerceptronSizes sizes{260, 264, 5};
constexpr std::int64_t steps = 5;

// Shards of 0 to 6 examples, as a step's number says; in the last step most have none.
std::int64_t examples_of(std::int64_t shard, std::int64_t step) {
  return step + 1 == steps ? (shard == 7 ? 3 : 0) : (5 * shard + 3 * step) % 7;
}

PerceptronExamples shard_of(std::int64_t shard, std::int64_t step) {
  const std::int64_t count = examples_of(shard, step);
  PerceptronExamples made{Tensor::empty({count, sizes.inputs}),
                          Tensor::empty({count}, DType::int32)};
  RandomStream random(3, static_cast<std::uint64_t>(100 * step + shard));
  for (float& value : made.x.span<float>()) value = random.normal();
  for (std::int32_t& label : made.t.span<std::int32_t>())
    label = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(sizes.classes)));
  return made;
}

// When the gradients of a step are used. `one_process_late` does by hand what double buffering
// does on several ranks.
enum class Use { in_step, in_last_pass, late, one_process_late };

// Between the passes of a step.
using Between = std::function<void(Perceptron& model, std::int64_t shard)>;

void train(Optimizer& optimizer, Perceptron& model, Range shards, Use use = Use::in_step,
           const Between& between = {}) {
  Tensor kept;
  std::int64_t kept_examples = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    StepScope scope;
    std::int64_t total = 0;
    for (std::int64_t shard = shards.begin; shard < shards.end; ++shard) {
      optimizer.begin_shard(shard);
      const std::int64_t examples = examples_of(shard, step);
      const Variable loss = optimizer.forward(
          [&] { return model.loss(shard_of(shard, step), shard % 3 == 0); }, examples);
      if (use == Use::in_last_pass && shard + 1 == shards.end)
        total = optimizer.backward_and_exchange(loss, examples);
      else
        optimizer.backward(loss, examples);
      if (between) between(model, shard);
    }
    if (use != Use::in_last_pass) total = optimizer.exchange();
    if (use == Use::one_process_late) {
      const Tensor now = optimizer.arena().gradients().clone();
      if (kept) optimizer.arena().gradients().copy_from(kept);
      kept = now;
      std::swap(total, kept_examples);
    }
    optimizer.update(total);
    scope.succeeded();
  }
}

std::map<std::string, Tensor> values_of(Optimizer& optimizer, Perceptron& model) {
  std::map<std::string, Tensor> values;
  for (const auto& [path, parameter] : model.parameters())
    values.emplace(path, parameter->value().clone());
  for (const auto& [path, buffer] : model.buffers()) values.emplace(path, buffer->clone());
  for (const std::string& name : optimizer.states().names())
    values.emplace("state " + name, optimizer.states().gather(name));
  return values;
}

void expect_same_bits(const std::map<std::string, Tensor>& found,
                      const std::map<std::string, Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    const Tensor& other = found.at(name);
    ASSERT_EQ(other.bytes(), tensor.bytes()) << name;
    EXPECT_EQ(std::memcmp(other.raw(), tensor.raw(), tensor.bytes()), 0) << name;
  }
}

class ShardedSteps : public testing::WithCommunicator {
 protected:
  void set_up() override { set_cpu_threads(1); }

  static void prepare(Optimizer& optimizer) {
    optimizer.add_hook(weight_decay(1e-3));
    optimizer.add_hook(gradient_clipping(0.5));
  }
  std::map<std::string, Tensor> trained_by_all(std::int64_t shards,
                                               const std::function<void(Optimizer&)>& change,
                                               Use use = Use::in_step) {
    Perceptron model(sizes);
    const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator_);
    prepare(*optimizer);
    optimizer->set_shards(shards);
    change(*optimizer);
    optimizer->setup(model);
    train(*optimizer, model, part_of(shards, size(), rank()), use);
    return values_of(*optimizer, model);
  }
  // Depends on nothing else, so it is computed once for all communicators.
  static const std::map<std::string, Tensor>& trained_by_one(std::int64_t shards,
                                                             Use use = Use::in_step) {
    static std::map<std::pair<std::int64_t, Use>, std::map<std::string, Tensor>> known;
    const auto [found, is_new] = known.try_emplace({shards, use});
    if (is_new) found->second = trained_by_one(shards, use, {});
    return found->second;
  }
  static std::map<std::string, Tensor> trained_by_one(std::int64_t shards, Use use,
                                                      const Between& between) {
    Perceptron model(sizes);
    const auto optimizer = create_optimizer("adam");
    prepare(*optimizer);
    optimizer->set_shards(shards);
    optimizer->setup(model);
    train(*optimizer, model, {0, shards}, use, between);
    return values_of(*optimizer, model);
  }
};

TEST_P(ShardedSteps, HaveTheBitsOfOneProcess) {
  for (const std::int64_t shards : {24, 12}) {
    SCOPED_TRACE(shards);
    const auto expected = trained_by_one(shards);
    expect_same_bits(trained_by_all(shards, [](Optimizer&) {}), expected);
  }
}

TEST_P(ShardedSteps, DoNotDependOnTheExchange) {
  for (const ExchangeMode mode : {ExchangeMode::whole, ExchangeMode::overlapped})
    for (const Use use : {Use::in_step, Use::in_last_pass})
      for (const std::int64_t shards : {24, 12})
        expect_same_bits(trained_by_all(
                             shards,
                             [&](Optimizer& optimizer) {
                               optimizer.set_exchange({.mode = mode, .range_bytes = 1024});
                             },
                             use),
                         trained_by_one(shards));
  expect_same_bits(trained_by_all(24, [](Optimizer& optimizer) { optimizer.states().shard(true); }),
                   trained_by_one(24));
}

// Whoever reads a gradient during a step sees that of its shard, and changes no bits.
TEST_P(ShardedSteps, ShowTheirGradients) {
  if (rank() > 0) return;
  const auto expected = trained_by_one(24);
  const auto l1_of = [](Perceptron& model) { return model.parameters().front().parameter; };
  std::vector<Tensor> shown;
  for (const std::int64_t stride : {1, 2, 23}) {
    shown.clear();
    expect_same_bits(trained_by_one(24, Use::in_step,
                                    [&](Perceptron& model, std::int64_t shard) {
                                      if (shard % stride == 0 && l1_of(model)->has_grad())
                                        shown.push_back(l1_of(model)->grad().clone());
                                    }),
                     expected);
    EXPECT_GE(shown.size(), static_cast<std::size_t>(steps));
  }
  // The first shard of the first step is one of no examples, the second has 5.
  Perceptron model(sizes);
  ASSERT_EQ(l1_of(model)->shape(), Shape({sizes.hidden, sizes.inputs}));
  const auto optimizer = create_optimizer("sgd");
  optimizer->set_shards(2);
  optimizer->setup(model);
  Perceptron plain(sizes);
  StepScope scope;
  optimizer->begin_shard(0);
  const PerceptronExamples examples = shard_of(1, 0);
  optimizer->backward(optimizer->forward([&] { return model.loss(examples, false); }, 5), 5);
  plain.loss(examples, false).backward(5);
  const auto found = l1_of(model)->grad().span<float>(), right = l1_of(plain)->grad().span<float>();
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], right[i], 1e-5) << i;
  optimizer->give_up_step();
}

// A gradient that is cleared between the passes of a step counts as zeros.
TEST(LateProducts, CanBeCleared) {
  const auto train_with = [](const std::function<void(Parameter&)>& change) {
    Perceptron model(sizes);
    const auto optimizer = create_optimizer("sgd");
    optimizer->set_shards(12);
    optimizer->setup(model);
    train(*optimizer, model, {0, 12}, Use::in_step, [&](Perceptron& trained, std::int64_t shard) {
      Parameter& l1 = *trained.parameters().front().parameter;
      if (shard == 5 && l1.has_grad()) change(l1);
    });
    return values_of(*optimizer, model);
  };
  const auto cleared = train_with([](Parameter& l1) { l1.clear_grad(); });
  expect_same_bits(cleared, train_with([](Parameter& l1) { l1.grad().fill(0); }));
  const auto untouched = train_with([](Parameter&) {});
  EXPECT_NE(std::memcmp(cleared.at("l1/W").raw(), untouched.at("l1/W").raw(),
                        untouched.at("l1/W").bytes()),
            0);
}

// A step that fails leaves nothing behind, nor does one that is computed in the same memory.
TEST(LateProducts, AreOfTheirStep) {
  const auto train_twice = [](bool fails) {
    Perceptron model(sizes);
    const auto optimizer = create_optimizer("sgd");
    optimizer->set_shards(12);
    optimizer->setup(model);
    if (fails) {
      StepScope scope;
      for (const std::int64_t shard : {0, 1, 2}) {
        optimizer->begin_shard(shard);
        const std::int64_t examples = examples_of(shard, 0);
        optimizer->backward(
            optimizer->forward([&] { return model.loss(shard_of(shard, 0), true); }, examples),
            examples);
      }
      optimizer->give_up_step();
    }
    train(*optimizer, model, {0, 12});
    return values_of(*optimizer, model);
  };
  expect_same_bits(train_twice(true), train_twice(false));
}

TEST(LateProducts, KeepTheirInputs) {
  const auto train_from = [](bool reuses) {
    Perceptron model(sizes);
    const auto optimizer = create_optimizer("sgd");
    optimizer->set_shards(4);
    optimizer->setup(model);
    StepScope scope;
    const Tensor memory = Tensor::empty({6, sizes.inputs});
    for (std::int64_t shard = 0; shard < 4; ++shard) {
      optimizer->begin_shard(shard);
      PerceptronExamples examples = shard_of(4, 0);
      for (float& value : examples.x.span<float>()) value += static_cast<float>(shard);
      if (reuses) {
        memory.copy_from(examples.x);
        examples.x = memory;
      }
      optimizer->backward(optimizer->forward([&] { return model.loss(examples, true); }, 6), 6);
      memory.fill(99);
    }
    optimizer->update(optimizer->exchange());
    scope.succeeded();
    return values_of(*optimizer, model);
  };
  ASSERT_EQ(examples_of(4, 0), 6);
  expect_same_bits(train_from(true), train_from(false));
}

// A layer that is used in two blocks has the same bits whether they are recomputed or not.
TEST(LateProducts, AreTheSameInRecomputedBlocks) {
  const auto train_blocks = [](bool recomputes) {
    Sequential net;
    net.append("hidden", std::make_unique<Linear>(264, 264));
    net.initialize(1);
    const auto optimizer = create_optimizer("adam");
    optimizer->set_shards(4);
    optimizer->setup(net);
    for (int step = 0; step < 2; ++step) {
      StepScope scope;
      for (std::int64_t shard = 0; shard < 4; ++shard) {
        optimizer->begin_shard(shard);
        const Tensor x = Tensor::full({3, 264}, static_cast<double>(shard + step) / 7);
        const auto block = [&net](const std::vector<Variable>& inputs) {
          return std::vector{functions::sigmoid(net(inputs[0]))};
        };
        const auto apply = [&](const Variable& input) {
          return recomputes ? recompute(block, {input}).front() : block({input}).front();
        };
        optimizer->backward(optimizer->forward(
                                [&] {
                                  return functions::mean_squared_error(apply(apply(Variable(x))),
                                                                       Tensor::zeros({3, 264}));
                                },
                                3),
                            3);
      }
      optimizer->update(optimizer->exchange());
      scope.succeeded();
    }
    std::map<std::string, Tensor> values;
    for (const auto& [path, parameter] : net.parameters()) values.emplace(path, parameter->value());
    return values;
  };
  expect_same_bits(train_blocks(true), train_blocks(false));
}

// A shard in several passes: a product that was late is followed by others.
TEST_P(ShardedSteps, TakeShardsInParts) {
  const auto parts = [](Optimizer& optimizer, Perceptron& model, Range shards) {
    for (std::int64_t step = 0; step < 3; ++step) {
      StepScope scope;
      for (std::int64_t shard = shards.begin; shard < shards.end; ++shard) {
        optimizer.begin_shard(shard);
        for (const std::int64_t part : {0, 100}) {
          const std::int64_t examples = examples_of(shard + part, step);
          optimizer.backward(
              optimizer.forward([&] { return model.loss(shard_of(shard + part, step), part > 0); },
                                examples),
              examples);
        }
      }
      optimizer.update(optimizer.exchange());
      scope.succeeded();
    }
  };
  Perceptron model(sizes), alone(sizes);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *communicator_);
  const auto single = create_optimizer("sgd");
  for (Optimizer* each : {optimizer.get(), single.get()}) each->set_shards(12);
  optimizer->setup(model);
  single->setup(alone);
  parts(*optimizer, model, part_of(12, size(), rank()));
  parts(*single, alone, {0, 12});
  expect_same_bits(values_of(*optimizer, model), values_of(*single, alone));
}

// Products beyond the memory for operands, and longer ones, are computed at once.
TEST_P(ShardedSteps, KeepSomeProductsOnly) {
  static constexpr std::int64_t inputs = 4096;
  const auto train_wide = [](Optimizer& optimizer, Sequential& net, Range shards) {
    for (std::int64_t step = 0; step < 3; ++step) {
      StepScope scope;
      for (std::int64_t shard = shards.begin; shard < shards.end; ++shard) {
        constexpr std::array<std::int64_t, 5> sizes_of{20, 129, 128, 0, 7};
        const std::int64_t examples = sizes_of[static_cast<std::size_t>(shard + step) % 5];
        optimizer.begin_shard(shard);
        const Tensor x = Tensor::full({examples, inputs}, 1.0 / static_cast<double>(shard + 3));
        optimizer.backward(optimizer.forward(
                               [&] {
                                 return functions::mean_squared_error(
                                     net(Variable(x)), Tensor::zeros({examples, 16}));
                               },
                               examples),
                           examples);
      }
      optimizer.update(optimizer.exchange());
      scope.succeeded();
    }
  };
  const auto wide = [] {
    auto net = std::make_unique<Sequential>();
    net->append("wide", std::make_unique<Linear>(inputs, 16));
    net->initialize(1);
    return net;
  };
  const auto all = wide(), alone = wide();
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator_);
  const auto single = create_optimizer("adam");
  for (Optimizer* each : {optimizer.get(), single.get()}) each->set_shards(12);
  optimizer->setup(*all);
  single->setup(*alone);
  train_wide(*optimizer, *all, part_of(12, size(), rank()));
  train_wide(*single, *alone, {0, 12});
  for (std::size_t i = 0; i < 2; ++i) {
    const Tensor &found = all->parameters()[i].parameter->value(),
                 &expected = alone->parameters()[i].parameter->value();
    EXPECT_EQ(std::memcmp(found.raw(), expected.raw(), expected.bytes()), 0) << i;
  }
}

// The gradients of a step are used in the next one, on any number of ranks.
TEST_P(ShardedSteps, MayBeDoubleBuffered) {
  const auto found = trained_by_all(
      24,
      [](Optimizer& optimizer) { optimizer.set_exchange({.mode = ExchangeMode::double_buffered}); },
      Use::late);
  expect_same_bits(found, trained_by_one(24, Use::one_process_late));
}

TEST_P(ShardedSteps, RefuseOtherOrders) {
  Perceptron model(sizes);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("sgd"), *communicator_);
  EXPECT_THROW(optimizer->begin_shard(0), Error);
  EXPECT_THROW(optimizer->set_shards(size() > 1 ? 12 * size() + 1 : -1), Error);
  optimizer->set_shards(12);
  optimizer->setup(model);
  StepScope scope;
  const Range own = part_of(12, size(), rank());
  EXPECT_THROW(optimizer->begin_shard(own.begin + 1), Error);
  EXPECT_THROW(optimizer->backward(optimizer->forward([] { return Variable(); }, 0), 0), Error);
}

INSTANTIATE_TEST_SUITE_P(Communicators, ShardedSteps,
                         ::testing::ValuesIn(testing::summing_communicators()));

}  // namespace
}  // namespace tasuki
