// Ranks that share one set of weights on a node train like ranks with private weights, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "communicator/node/node_array.hpp"
#include "communicators.hpp"
#include "nn/connection.hpp"
#include "optimizer/module_exchange.hpp"
#include "own_rules.hpp"
#include "perceptron.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

using testing::Perceptron;
using testing::values_of;

const RuleRegistration<testing::OwnMomentum> own{"own_momentum"};
const RuleRegistration<testing::OwnLars> own_with_norms{"own_lars"};

// About ten norm blocks.
constexpr testing::PerceptronSizes sizes{.inputs = 40, .hidden = 150, .classes = 10};
constexpr std::int64_t batch = 3;

class NodeWeights : public testing::WithCommunicator {
 protected:
  void set_up() override {
    const bool is_of_nodes = GetParam() == "hierarchical" || GetParam() == "two_dimensional";
    if (is_of_nodes && communicator_->inter_size() == 1)
      GTEST_SKIP() << "on one node " << GetParam() << " does what single_node does";
  }
  struct Settings {
    std::string rule = "adam";
    bool shared = true, sharded = false;
    std::int64_t group = 0;
    ExchangeSettings exchange{};
  };
  struct Run {
    Perceptron model{sizes};
    std::unique_ptr<Optimizer> optimizer;
  };
  std::unique_ptr<Run> made(const Settings& settings) {
    auto run = std::make_unique<Run>();
    run->optimizer = create_multi_node_optimizer(create_optimizer(settings.rule), *communicator_);
    run->optimizer->weights().share(settings.shared, settings.group);
    run->optimizer->states().shard(settings.sharded);
    run->optimizer->set_exchange(settings.exchange);
    run->optimizer->setup(run->model);
    return run;
  }
  // Each rank with its own examples; now and then one has none.
  void train(Run& run, std::uint64_t steps) const {
    const auto me = static_cast<std::uint64_t>(rank());
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto examples = run.model.examples(batch, step, me);
      const bool is_idle = size() > 1 && step % 4 == 3 && me == 0;
      run.optimizer->update([&] { return run.model.loss(examples, (step + me) % 2 == 0); },
                            is_idle ? 0 : batch);
    }
  }
  // Whether ranks can share weights here.
  bool is_possible() const {
    return communicator_->shares_memory() && size() > communicator_->inter_size();
  }
  static void expect_same(const Run& a, const Run& b) {
    EXPECT_EQ(values_of(a.optimizer->arena().values()), values_of(b.optimizer->arena().values()));
    for (const std::string& name : a.optimizer->states().names())
      EXPECT_EQ(values_of(a.optimizer->states().gather(name)),
                values_of(b.optimizer->states().gather(name)))
          << name;
  }
};

TEST_P(NodeWeights, TrainLikePrivateWeights) {
  for (const char* rule : {"adam", "nesterov", "own_momentum", "own_lars"}) {
    SCOPED_TRACE(rule);
    const auto apart = made({.rule = rule, .shared = false}), shared = made({.rule = rule});
    EXPECT_EQ(shared->optimizer->weights().are_shared(), is_possible());
    for (Run* run : {apart.get(), shared.get()}) {
      run->optimizer->add_hook(weight_decay(1e-3));
      if (std::string(rule) != "own_momentum") run->optimizer->add_hook(gradient_clipping(0.1));
      if (std::string(rule) == "nesterov") run->optimizer->add_hook(gradient_lars(1e-2, 1e-3));
      train(*run, rule == std::string("adam") ? 100 : 5);
    }
    expect_same(*apart, *shared);
  }
}

TEST_P(NodeWeights, TrainLikePrivateWeightsInOverlappedRanges) {
  const ExchangeSettings exchange{.mode = ExchangeMode::overlapped, .range_bytes = 8192};
  const auto apart = made({.shared = false, .exchange = exchange});
  const auto shared = made({.exchange = exchange});
  for (Run* run : {apart.get(), shared.get()}) train(*run, 20);
  expect_same(*apart, *shared);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NodeWeights,
                         ::testing::Values("single_node", "hierarchical", "two_dimensional"),
                         [](const auto& info) { return info.param; });

// What does not depend on how gradients are summed.
class SharedWeights : public NodeWeights {};

TEST_P(SharedWeights, NeedACommunicatorWithSharedMemory) {
  const auto flat = create_communicator("flat");
  Perceptron model(sizes);
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *flat);
  optimizer->weights().share(true);
  optimizer->setup(model);
  EXPECT_FALSE(optimizer->weights().are_shared());
  EXPECT_EQ(optimizer->weights().describe(), "one set per rank (communicator flat)");
}

TEST_P(SharedWeights, TrainWithShardedStates) {
  const auto apart = made({.shared = false, .sharded = true}), shared = made({.sharded = true});
  for (Run* run : {apart.get(), shared.get()}) {
    run->optimizer->add_hook(gradient_clipping(0.1));
    train(*run, 10);
  }
  expect_same(*apart, *shared);
}

TEST_P(SharedWeights, AreSeparateForGroupsOnANode) {
  const auto apart = made({.shared = false}), grouped = made({.group = rank() % 2});
  // With two ranks on each node every group on a node has one rank.
  const Topology& topology = communicator_->topology();
  const bool has_pairs = size() > 2 && topology.ranks_per_node() != 2;
  EXPECT_EQ(grouped->optimizer->weights().are_shared(), is_possible() && has_pairs);
  for (Run* run : {apart.get(), grouped.get()}) train(*run, 5);
  expect_same(*apart, *grouped);
}

// A group's weights also need what ranks of other groups on the node have updated.
TEST_P(SharedWeights, OfGroupsOnANodeTrainWithShardedStates) {
  const auto apart = made({.shared = false, .sharded = true}),
             grouped = made({.sharded = true, .group = rank() % 2});
  for (Run* run : {apart.get(), grouped.get()}) train(*run, 5);
  expect_same(*apart, *grouped);
}

// Code that writes weights and knows nothing of other ranks.
TEST_P(SharedWeights, AcceptChangesMadeByAllRanks) {
  const auto apart = made({.shared = false}), shared = made({});
  for (Run* run : {apart.get(), shared.get()}) {
    train(*run, 2);
    for (const auto& [path, parameter] : run->model.parameters())
      for (float& value : parameter->value().span<float>()) value *= 0.5F;
    train(*run, 2);
    run->model.initialize(7);
    bcast_data(*communicator_, run->model);
    train(*run, 2);
    // Rank 0 alone makes a change and sends it to all.
    if (rank() == 0) run->model.parameters()[0].parameter->value().fill(0.25);
    communicator_->bcast_data(run->model.parameters()[0].parameter->value());
    train(*run, 2);
  }
  expect_same(*apart, *shared);
}

TEST_P(SharedWeights, UseOneStoragePerNode) {
  if (!is_possible()) GTEST_SKIP() << "no ranks have weights in common here";
  const auto run = made({});
  train(*run, 1);
  const ParameterArena& arena = run->optimizer->arena();
  if (arena.is_shared()) {
    // All ranks read what the owner writes.
    arena.begin_update();
    const Range own = arena.own_slice();
    if (own.size() > 0) arena.shared_values().slice(own.begin, own.end).fill(rank() + 1);
    arena.end_update();
    const std::vector<float> seen = values_of(arena.values());
    EXPECT_EQ(
        std::memcmp(arena.values().raw(), arena.shared_values().raw(), arena.values().bytes()), 0);
    EXPECT_EQ(std::ranges::count_if(
                  seen, [&](float value) { return value == static_cast<float>(rank() + 1); }),
              own.size());
    // Other ranks do not see what a rank writes to its own view.
    arena.wait_for_sharers();
    arena.values().fill(-rank() - 1);
    arena.wait_for_sharers();
    EXPECT_EQ(values_of(arena.shared_values()), seen);
    EXPECT_EQ(arena.values().data<float>()[0], static_cast<float>(-rank() - 1));
  }
}

TEST_P(SharedWeights, FollowFrozenAndNewParameters) {
  const auto apart = made({.shared = false}), shared = made({});
  Linear added_to_apart(7, 1000), added_to_shared(7, 1000);
  const auto change = [&](Run& run, Linear& added) {
    train(run, 2);
    run.optimizer->freeze("l1/*");
    train(run, 2);
    added.initialize(2);
    run.model.add("added", added);
    train(run, 2);
    run.optimizer->unfreeze("**");
    run.optimizer->freeze("l3/*");
    train(run, 2);
  };
  change(*apart, added_to_apart);
  change(*shared, added_to_shared);
  expect_same(*apart, *shared);
}

TEST_P(SharedWeights, AreRoundedOnce) {
  const auto apart = made({.shared = false}), shared = made({});
  for (Run* run : {apart.get(), shared.get()}) {
    run->optimizer->compute_in(DType::bfloat16);
    train(*run, 2);
    for (const auto& [path, parameter] : run->model.parameters()) {
      parameter->value().fill(0.3);
      parameter->value_changed();
    }
    train(*run, 2);
    const ParameterArena& arena = run->optimizer->arena();
    const Tensor expected = arena.values().to(DType::bfloat16);
    EXPECT_EQ(std::memcmp(arena.rounded().raw(), expected.raw(), expected.bytes()), 0);
  }
  expect_same(*apart, *shared);
}

class WholeArena final : public ArrayHook {
 public:
  std::string name() const override { return "WholeArena"; }
  void apply(const GradientArrays& arrays) override {
    backend(arrays.device()).scale(arrays.gradients, 0.5F);
  }
};

TEST_P(SharedWeights, BecomePrivateForHooksOfTheWholeArena) {
  const auto apart = made({.shared = false}), shared = made({});
  for (Run* run : {apart.get(), shared.get()}) {
    train(*run, 3);
    run->optimizer->add_hook(std::make_shared<WholeArena>());
    train(*run, 3);
  }
  EXPECT_FALSE(shared->optimizer->weights().are_shared());
  if (is_possible()) {
    EXPECT_EQ(shared->optimizer->weights().describe(),
              "one set per rank (hook WholeArena works on all gradients)");
  }
  expect_same(*apart, *shared);
}

TEST_P(SharedWeights, ShardStatesAmongANodesRanks) {
  const auto apart = made({.shared = false}), shared = made({});
  const Tensor bytes =
      Tensor::full({}, static_cast<double>(shared->optimizer->states().bytes()), DType::float64);
  communicator_->allreduce(bytes);
  const int copies = is_possible() ? communicator_->inter_size() : size();
  EXPECT_EQ(bytes.item(), static_cast<double>(apart->optimizer->states().bytes()) * copies);
}

// Each rank takes its part of what a snapshot has, also the only rank of its node.
TEST_P(SharedWeights, LoadStatesFromSnapshots) {
  const auto trained = made({}), loaded = made({});
  train(*trained, 3);
  const auto& parameters = trained->optimizer->arena().entries();
  const auto& of_loaded = loaded->optimizer->arena().entries();
  for (const std::string& name : trained->optimizer->states().names()) {
    const Tensor all = trained->optimizer->states().gather(name);
    for (std::size_t i = 0; i < parameters.size(); ++i)
      loaded->optimizer->states().set(
          *of_loaded[i].parameter, name,
          ParameterArena::part(all, parameters[i]).reshape(parameters[i].parameter->shape()));
    EXPECT_EQ(values_of(loaded->optimizer->states().gather(name)), values_of(all)) << name;
    const Tensor at_last = loaded->optimizer->states().gather(name, size() - 1);
    if (rank() == size() - 1) {
      EXPECT_EQ(values_of(at_last), values_of(all)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, SharedWeights, ::testing::Values("auto"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
