// Ranks that keep only the states, or the states and gradients, of their slice of the arena train
// like ranks that keep all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "communicators.hpp"
#include "core/stop_request.hpp"
#include "nn/connection.hpp"
#include "own_rules.hpp"
#include "perceptron.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

using ::testing::HasSubstr;
using testing::Perceptron;

const RuleRegistration<testing::OwnLars> own_with_norms{"own_lars"};

// Scales each parameter's gradient by a function of its norm.
class ByNorm final : public NormHook {
 public:
  std::string name() const override { return "ByNorm"; }
  void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms> norms, double all,
              std::int64_t) const override {
    for (std::size_t i = 0; i < norms.size(); ++i)
      factors[i] = {1 / (1 + norms[i].g / all), 1e-3 * norms[i].w};
  }
};

// About 60 norm blocks, whose limits are not those of parameters. Two layers and half of the model
// are less than all of it, so that gradients are divided on two ranks, too.
constexpr testing::PerceptronSizes sizes{.inputs = 40, .hidden = 150, .classes = 10, .further = 8};
constexpr std::int64_t batch = 3;

class ShardedStates : public testing::WithCommunicator {
 protected:
  void set_up() override {
    const bool is_of_nodes = GetParam() == "hierarchical" || GetParam() == "two_dimensional";
    if (is_of_nodes && communicator_->inter_size() == 1)
      GTEST_SKIP() << "on one node " << GetParam() << " does what single_node does";
  }
  struct Run {
    Perceptron model{sizes};
    std::unique_ptr<Optimizer> optimizer;
  };
  std::unique_ptr<Run> made(const std::string& rule, Sharding what,
                            ExchangeSettings exchange = {}) {
    auto run = std::make_unique<Run>();
    run->optimizer = create_multi_node_optimizer(create_optimizer(rule), *communicator_);
    run->optimizer->shard(what);
    if (exchange.range_bytes == 0 && what == Sharding::gradients) exchange.range_bytes = 65536;
    run->optimizer->set_exchange(exchange);
    run->optimizer->setup(run->model);
    EXPECT_EQ(run->optimizer->arena().keeps_sums_only(), what == Sharding::gradients && size() > 1);
    return run;
  }
  // Each rank with its own examples; now and then one has none.
  void train(Run& run, std::uint64_t steps, bool knows_examples = true) const {
    const auto me = static_cast<std::uint64_t>(rank());
    for (std::uint64_t step = 0; step < steps; ++step) {
      const auto examples = run.model.examples(batch, step, me);
      const bool is_idle = size() > 1 && step % 4 == 3 && me == 0;
      const std::int64_t others = size() > 1 && step % 4 == 3 ? size() - 1 : size();
      StepScope scope;
      const Variable loss = run.optimizer->forward([&] { return run.model.loss(examples, false); },
                                                   is_idle ? 0 : batch);
      run.optimizer->update(run.optimizer->backward_and_exchange(
          loss, is_idle ? 0 : batch,
          knows_examples ? std::optional(batch * others) : std::nullopt));
      scope.succeeded();
    }
  }
  // Adam turns small rounding errors of gradients into larger ones of weights.
  std::string rule() const { return has_the_same_bits() ? "adam" : "momentum_sgd"; }
  // If MPI adds, bits are those of the other kinds only for sums of two numbers.
  bool has_the_same_bits() const {
    const std::string& kind = GetParam();
    const bool by_mpi =
        kind == "flat" ? size() > 2 : kind != "naive" && communicator_->inter_size() > 2;
    return !by_mpi;
  }
  void expect_same(const Tensor& a, const Tensor& b, const std::string& what) const {
    ASSERT_EQ(a.count(), b.count());
    if (has_the_same_bits()) {
      EXPECT_EQ(std::memcmp(a.raw(), b.raw(), a.bytes()), 0) << what;
      return;
    }
    for (std::int64_t i = 0; i < a.count(); ++i)
      ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-4F) << what;
  }
  void expect_same(const Run& a, const Run& b) const {
    expect_same(a.optimizer->arena().values(), b.optimizer->arena().values(), "weights");
    for (const std::string& name : a.optimizer->states().names())
      expect_same(a.optimizer->states().gather(name), b.optimizer->states().gather(name), name);
    for (const Tensor& other : communicator_->allgather(a.optimizer->arena().values()))
      EXPECT_EQ(std::memcmp(other.raw(), a.optimizer->arena().values().raw(), other.bytes()), 0);
  }
};

TEST_P(ShardedStates, TrainLikeWholeStates) {
  for (const auto& [name, what] : {std::pair("nesterov", Sharding::states),
                                   {"own_lars", Sharding::states},
                                   {"lamb", Sharding::states},
                                   {"nesterov", Sharding::gradients},
                                   {"lamb", Sharding::gradients}}) {
    SCOPED_TRACE(fmt::format("{} {}", name, static_cast<int>(what)));
    const auto whole = made(name, Sharding::none), sharded = made(name, what);
    EXPECT_EQ(sharded->optimizer->states().are_sharded(), size() > 1);
    for (Run* run : {whole.get(), sharded.get()}) {
      run->optimizer->add_hook(weight_decay(1e-3));
      run->optimizer->add_hook(gradient_clipping(0.1));
      if (name == std::string("nesterov")) run->optimizer->add_hook(gradient_lars(1e-2, 1e-3));
      if (name == std::string("lamb")) run->optimizer->add_hook(std::make_shared<ByNorm>());
      run->optimizer->add_group({.pattern = "l2/*", .rate_factor = 0.5});
      train(*run, 3);
    }
    expect_same(*whole, *sharded);
  }
}

TEST_P(ShardedStates, TrainLikeWholeStatesInOverlappedRanges) {
  const ExchangeSettings exchange{.mode = ExchangeMode::overlapped, .range_bytes = 8192};
  for (const Sharding what : {Sharding::states, Sharding::gradients}) {
    // Messages add numbers in an order that depends on the ranges, which are other ones then.
    if (what == Sharding::gradients && GetParam() == "naive" && size() > 2) continue;
    const auto whole = made("adam", Sharding::none, exchange),
               sharded = made("adam", what, exchange);
    for (Run* run : {whole.get(), sharded.get()}) train(*run, 4, false);
    expect_same(*whole, *sharded);
  }
}

// What does not depend on how messages travel.
class StateOwners : public ShardedStates {};

TEST_P(StateOwners, HoldOnlyPartOfTheMemory) {
  const auto whole = made("adam", Sharding::none), sharded = made("adam", Sharding::states);
  const Tensor bytes =
      Tensor::full({}, static_cast<double>(sharded->optimizer->states().bytes()), DType::float64);
  const auto own_bytes = static_cast<double>(sharded->optimizer->states().bytes());
  communicator_->allreduce(bytes);
  EXPECT_EQ(bytes.item(), static_cast<double>(whole->optimizer->states().bytes()));
  // Two states of at most one block more than the mean.
  EXPECT_LE(own_bytes, bytes.item() / size() + 2 * sizeof(float) * norm_block);
}

TEST_P(StateOwners, FollowFrozenParameters) {
  for (const Sharding what : {Sharding::states, Sharding::gradients}) {
    const auto whole = made(rule(), Sharding::none), sharded = made(rule(), what);
    for (Run* run : {whole.get(), sharded.get()}) {
      train(*run, 2);
      run->optimizer->freeze("l1/*");
      train(*run, 2);
      EXPECT_TRUE(run->optimizer->states().has(*run->model.parameters()[0].parameter));
      run->optimizer->unfreeze("**");
      run->optimizer->freeze("l3/*");
      train(*run, 2);
    }
    expect_same(*whole, *sharded);
  }
}

TEST_P(StateOwners, FollowGrowingModel) {
  const auto whole = made(rule(), Sharding::none), of_states = made(rule(), Sharding::states),
             of_gradients = made(rule(), Sharding::gradients);
  Linear added_to_whole(7, 1000), added_to_states(7, 1000), added_to_gradients(7, 1000);
  const auto grow = [&](Run& run, Linear& added) {
    train(run, 2);
    added.initialize(2);
    run.model.add("added", added);
    train(run, 2);
  };
  grow(*whole, added_to_whole);
  grow(*of_states, added_to_states);
  grow(*of_gradients, added_to_gradients);
  expect_same(*whole, *of_states);
  expect_same(*whole, *of_gradients);
}

TEST_P(StateOwners, LoadTheirPartOfAWholeState) {
  const auto run = made("adam", Sharding::gradients);
  for (const ParameterArena::Entry& entry : run->optimizer->arena().entries())
    run->optimizer->states().set(
        *entry.parameter, "v",
        Tensor::full(entry.parameter->shape(), static_cast<double>(entry.offset)));
  const Tensor all = run->optimizer->states().gather("v"),
               at_0 = run->optimizer->states().gather("v", 0);
  EXPECT_EQ(at_0.defined(), rank() == 0 || size() == 1);
  for (const Tensor& found : {all, at_0})
    for (const ParameterArena::Entry& entry : run->optimizer->arena().entries()) {
      if (!found) continue;
      EXPECT_EQ(found.data<float>()[entry.offset], static_cast<float>(entry.offset));
      EXPECT_EQ(found.data<float>()[entry.offset + entry.count - 1],
                static_cast<float>(entry.offset));
    }
}

// Where one rank's part of the sums is not finite, no rank changes anything.
TEST_P(StateOwners, AgreeOnSkippedSteps) {
  testing::Vectors model({20'000, 20'000});
  auto optimizer = create_multi_node_optimizer(create_optimizer("momentum_sgd"), *communicator_);
  optimizer->shard(Sharding::gradients);
  optimizer->setup(model);
  optimizer->guard().scale_losses({.initial = 8, .rule = {}});
  const auto step = [&](float last) {
    const Tensor first = Tensor::full({20'000}, 1), second = Tensor::full({20'000}, 1);
    first.data<float>()[19'999] = last;
    optimizer->update(
        [&] {
          return testing::loss_with_gradients({{&model[0], first}, {&model[1], second}});
        },
        1);
  };
  step(1);
  EXPECT_EQ(optimizer->guard().loss_scaler()->scale(), 8);
  const std::vector<float> before = testing::values_of(optimizer->arena().values());
  step(rank() == 0 ? INFINITY : 1);
  EXPECT_EQ(optimizer->guard().loss_scaler()->scale(), 4);
  EXPECT_EQ(testing::values_of(optimizer->arena().values()), before);
  step(1);
  EXPECT_NE(testing::values_of(optimizer->arena().values()), before);
}

TEST_P(StateOwners, RoundAllWeights) {
  const auto run = made("adam", Sharding::gradients);
  run->optimizer->compute_in(DType::bfloat16);
  train(*run, 2);
  const ParameterArena& arena = run->optimizer->arena();
  const Tensor expected = arena.values().to(DType::bfloat16);
  EXPECT_EQ(std::memcmp(arena.rounded().raw(), expected.raw(), expected.bytes()), 0);
}

TEST_P(StateOwners, PassStopRequestsToAllRanks) {
  const auto run = made("adam", Sharding::gradients);
  const StoppableScope clears_the_request;
  if (rank() == size() - 1) request_stop();
  train(*run, 1);
  EXPECT_EQ(run->optimizer->step_exchange().asked_to_stop(), size() > 1);
}

class WholeArena final : public ArrayHook {
 public:
  std::string name() const override { return "WholeArena"; }
  void apply(const GradientArrays& arrays) override { arrays.gradients.fill(1); }
};

TEST_P(StateOwners, RejectStateReadsAndWholeArenaHooks) {
  if (size() == 1) GTEST_SKIP() << "one rank has all states";
  const auto run = made("adam", Sharding::gradients);
  const Parameter& first = *run->optimizer->arena().entries().front().parameter;
  const auto read = testing::caught([&] { run->optimizer->states().of(first, "m"); });
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind(), ErrorKind::usage);
  EXPECT_THAT(read->what(), HasSubstr("divided among the ranks"));
  run->optimizer->add_hook(std::make_shared<WholeArena>());
  const auto update = testing::caught([&] { train(*run, 1); });
  ASSERT_TRUE(update);
  EXPECT_EQ(update->kind(), ErrorKind::usage);
  EXPECT_THAT(update->what(), HasSubstr("hook WholeArena works on all gradients"));
}

const auto name_of_kind = [](const auto& info) { return info.param; };
INSTANTIATE_TEST_SUITE_P(Kinds, ShardedStates,
                         ::testing::Values("naive", "flat", "single_node", "hierarchical",
                                           "two_dimensional"),
                         name_of_kind);
INSTANTIATE_TEST_SUITE_P(Kinds, StateOwners, ::testing::Values("auto"), name_of_kind);

}  // namespace
}  // namespace tasuki
