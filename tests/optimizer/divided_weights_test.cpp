// Weights of which each node, here each rank, keeps a slice: the same training as with whole ones,
// the memory that passes take, ranks without examples, and what is refused.
#include "optimizer/divided_weights.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "communicators.hpp"
#include "nn/connection.hpp"
#include "nn/function.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/arrays.hpp"
#include "nn/functions/connection.hpp"
#include "nn/functions/loss.hpp"
#include "nn/recompute.hpp"
#include "optimizer/weight_units.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

namespace F = functions;
using ::testing::HasSubstr;

constexpr std::int64_t width = 64, batch = 4;
constexpr int layers = 12;

// Layers of 64 x 64 in pairs, "h0" to "h5", each a unit. `tied` comes first and last.
class Chain : public Module {
 public:
  explicit Chain(bool is_drawn_later = false) {
    add("tied", tied_);
    for (int i = 0; i < layers / 2; ++i) {
      pairs_.push_back(std::make_unique<Pair>());
      add("h" + std::to_string(i), *pairs_.back());
    }
    if (is_drawn_later)
      initialize_later(1);
    else
      initialize(1);
  }
  Variable loss(const Tensor& x) {
    Variable h = F::tanh(tied_(Variable(x)));
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const std::size_t at = swaps && i < 2 ? 1 - i : i;
      if (skips && at == 3) continue;
      // Copied into the graph if it is computed again.
      const auto block = [pair = pairs_[at].get()](const Variable& y) {
        return F::tanh(pair->b(F::tanh(pair->a(y))));
      };
      h = recomputes ? recompute(block, h) : block(h);
      if (between) between();
    }
    if (reshapes) {
      const Parameter& weights = *pairs_[4]->a.parameters().front().parameter;
      h = F::matmul(h, F::reshape(weights, {width, width}));
    }
    h = tied_(h);
    return F::mean_squared_error(h, Tensor::zeros(h.shape()));
  }
  const Parameter& first() const { return *parameters().front().parameter; }

  bool swaps = false, skips = false, recomputes = false, reshapes = false;
  std::function<void()> between;
  using Module::add;

 private:
  struct Pair : Module {
    Linear a{width, width}, b{width, width};
    Pair() {
      add("a", a);
      add("b", b);
    }
  };
  Linear tied_{width, width};
  std::vector<std::unique_ptr<Pair>> pairs_;
};

std::int64_t resident_elements(const Tensor& array) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t pages = (array.storage()->bytes() + page - 1) / page;
  std::vector<unsigned char> is_resident(pages);
  EXPECT_EQ(mincore(array.storage()->data(), array.storage()->bytes(), is_resident.data()), 0);
  return static_cast<std::int64_t>(page / sizeof(float)) *
         std::ranges::count_if(is_resident, [](unsigned char each) { return (each & 1) != 0; });
}

class DividedWeightsOfRanks : public testing::WithCommunicator {
 protected:
  struct Run {
    explicit Run(bool is_drawn_later) : model(is_drawn_later) {}
    Chain model;
    std::unique_ptr<Optimizer> optimizer;
  };
  std::unique_ptr<Run> made(Sharding what, std::int64_t shards = 0, DType type = DType::float32,
                            bool shares = false, const char* rule = "adam") {
    auto run = std::make_unique<Run>(what == Sharding::weights);
    run->optimizer = create_multi_node_optimizer(create_optimizer(rule), *communicator_);
    run->optimizer->set(run->optimizer->rule().rate_name(), 0.01);
    run->optimizer->shard(what, {"h*"});
    run->optimizer->weights().share(shares);
    if (shards > 0) run->optimizer->set_shards(shards);
    run->optimizer->set_exchange({.range_bytes = width * width * 4});
    run->optimizer->setup(run->model);
    run->optimizer->compute_in(type);
    return run;
  }
  bool divides() const { return size() > 1; }
  // MPI's own operations poll, which takes long beside other work.
  std::uint64_t many_steps() const { return GetParam() == "naive" ? 6 : 50; }
  Tensor examples(std::uint64_t step) const {
    RandomStream random(step, static_cast<std::uint64_t>(rank()));
    Tensor x = Tensor::empty({batch, width});
    for (float& value : x.span<float>()) value = random.normal();
    return x;
  }
  Tensor loss_of(Run& run, std::uint64_t step, std::int64_t own = batch) const {
    const Tensor x = examples(step).to(run.optimizer->compute_type());
    return run.optimizer->update([&] { return run.model.loss(x); }, own);
  }
  void train(Run& run, std::uint64_t steps) const {
    for (std::uint64_t step = 0; step < steps; ++step) loss_of(run, step);
  }
  static std::vector<std::vector<float>> weights_of(const Run& run) {
    std::vector<std::vector<float>> all;
    for (const auto& [path, parameter] : run.model.parameters())
      all.push_back(testing::values_of(parameter->read_value()));
    return all;
  }
  void expect_same(const Run& a, const Run& b) const {
    for (const std::string& name : a.optimizer->states().names())
      EXPECT_EQ(testing::values_of(a.optimizer->states().gather(name)),
                testing::values_of(b.optimizer->states().gather(name)))
          << name;
    EXPECT_EQ(weights_of(a), weights_of(b));
  }
  // Sums by messages are rounded as ranges divide them, except sums of two numbers.
  bool has_the_same_bits() const {
    return communicator_->inter_size() <= 2 && (GetParam() != "naive" || size() <= 2);
  }
};

TEST_P(DividedWeightsOfRanks, TrainLikeWholeOnes) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  const auto whole = made(Sharding::none);
  train(*whole, many_steps());
  for (const bool shares : {false, true}) {
    const auto divided = made(Sharding::weights, 0, DType::float32, shares);
    EXPECT_EQ(divided->optimizer->divides_weights(),
              divides() && !(divided->optimizer->weights().are_shared() &&
                             communicator_->inter_size() == 1));
    train(*divided, many_steps());
    expect_same(*whole, *divided);
  }
}

TEST_P(DividedWeightsOfRanks, TrainLikeWholeOnesInShards) {
  if (!communicator_->adds_shards()) GTEST_SKIP() << GetParam() << " adds no shards";
  const auto whole = made(Sharding::none, 12), divided = made(Sharding::weights, 12);
  for (Run* run : {whole.get(), divided.get()})
    for (std::uint64_t step = 0; step < 8; ++step) {
      StepScope scope;
      const Range own = run->optimizer->own_shards();
      for (std::int64_t shard = own.begin; shard < own.end; ++shard) {
        run->optimizer->begin_shard(shard);
        const Tensor x = examples(step * 100 + static_cast<std::uint64_t>(shard));
        const std::int64_t count = shard == 1 ? 0 : batch;
        run->optimizer->backward(run->optimizer->forward([&] { return run->model.loss(x); }, count),
                                 count);
      }
      run->optimizer->update(run->optimizer->exchange());
      scope.succeeded();
    }
  expect_same(*whole, *divided);
}

TEST_P(DividedWeightsOfRanks, RecomputeAndRoundLikeWholeOnes) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  for (const DType type : {DType::float32, DType::bfloat16})
    for (const bool shares : {false, true}) {
      const auto whole = made(Sharding::none, 0, type),
                 divided = made(Sharding::weights, 0, type, shares);
      for (Run* run : {whole.get(), divided.get()}) {
        run->model.recomputes = true;
        train(*run, 8);
      }
      expect_same(*whole, *divided);
    }
}

// Owners of slices add up norms of weights.
TEST_P(DividedWeightsOfRanks, HaveTheNormsOfWholeOnes) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  for (const char* const rule : {"lamb", "momentum_sgd"}) {
    const auto whole = made(Sharding::none, 0, DType::float32, false, rule),
               divided = made(Sharding::weights, 0, DType::float32, true, rule);
    for (Run* run : {whole.get(), divided.get()}) {
      run->optimizer->add_hook(gradient_clipping(0.5));
      run->optimizer->add_hook(weight_decay(0.01));
      if (rule == std::string("momentum_sgd")) run->optimizer->add_hook(gradient_lars(0.01));
      train(*run, 6);
    }
    expect_same(*whole, *divided);
  }
}

// Ranks take turns with no examples, in the first step, too, when the order of units is not known.
TEST_P(DividedWeightsOfRanks, NeedNoExamplesOnAllRanks) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  for (const bool shares : {false, true}) {
    const auto whole = made(Sharding::none),
               divided = made(Sharding::weights, 0, DType::float32, shares);
    for (Run* run : {whole.get(), divided.get()})
      for (int step = 0; step < 6; ++step)
        loss_of(*run, static_cast<std::uint64_t>(step),
                size() > 1 && step % size() == rank() ? 0 : batch);
    expect_same(*whole, *divided);
  }
}

TEST_P(DividedWeightsOfRanks, AddUpTheBatchesOfAStep) {
  const auto whole = made(Sharding::none), divided = made(Sharding::weights);
  for (Run* run : {whole.get(), divided.get()})
    for (std::uint64_t step = 0; step < 5; ++step) {
      StepScope scope;
      for (std::uint64_t pass = 0; pass < 3; ++pass) {
        const std::int64_t own = pass == 1 && rank() == 0 ? 0 : batch;
        const Tensor x = examples(3 * step + pass);
        run->optimizer->backward(run->optimizer->forward([&] { return run->model.loss(x); }, own),
                                 own);
      }
      run->optimizer->update(run->optimizer->exchange());
      scope.succeeded();
    }
  const auto a = weights_of(*whole), b = weights_of(*divided);
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].size(); ++j) ASSERT_NEAR(a[i][j], b[i][j], 1e-5F);
}

TEST_P(DividedWeightsOfRanks, EvaluateLikeWholeOnes) {
  const auto whole = made(Sharding::none), divided = made(Sharding::weights);
  train(*divided, 2);
  train(*whole, 2);
  const auto from = divided->model.parameters(), to = whole->model.parameters();
  for (std::size_t i = 0; i < to.size(); ++i)
    to[i].parameter->write_value(from[i].parameter->read_value());
  for (int pass = 0; pass < 3; ++pass)
    for (Run* run : {whole.get(), divided.get()}) {
      run->optimizer->evaluating([&] {
        const NoGrad no_grad;
        // The last rank has one batch less.
        if (pass == 2 && rank() == size() - 1) return;
        const Tensor x = examples(77);
        static std::vector<float> of_whole;
        const auto found = testing::values_of(run->model.loss(x).value());
        if (run == whole.get()) of_whole = found;
        EXPECT_EQ(found, of_whole);
      });
    }
  train(*divided, 1);
}

TEST_P(DividedWeightsOfRanks, TakeTheMemoryOfASliceAndTwoUnits) {
  if (!divides()) GTEST_SKIP() << "one rank has all weights";
  const auto run = made(Sharding::weights);
  const ParameterArena& arena = run->optimizer->arena();
  const std::int64_t page = sysconf(_SC_PAGESIZE) / static_cast<std::int64_t>(sizeof(float));
  std::int64_t most = 0;
  run->model.between = [&] { most = std::max(most, resident_elements(arena.values())); };
  train(*run, 3);
  const std::int64_t own = arena.own_slice().size(), pair = 2 * (width * width + width);
  // Two pairs, and the tied layer, which stays. A page at each end of each part.
  EXPECT_LE(most, own + 2 * pair + pair / 2 + 8 * page);
  EXPECT_GE(most, own);
  EXPECT_LE(resident_elements(arena.values()), own + 3 * page);
}

TEST_P(DividedWeightsOfRanks, FollowOrdersThatLeaveUnitsOut) {
  const auto run = made(Sharding::weights);
  train(*run, 2);
  run->model.skips = true;
  train(*run, 2);
  run->model.skips = false;
  train(*run, 2);
}

TEST_P(DividedWeightsOfRanks, AreReadAndWrittenOutsideOfPasses) {
  const auto whole = made(Sharding::none), divided = made(Sharding::weights);
  for (Run* run : {whole.get(), divided.get()})
    for (const auto& [path, parameter] : run->model.parameters()) {
      Tensor values = parameter->read_value().clone();
      for (float& value : values.span<float>()) value *= 0.5F;
      parameter->write_value(values);
    }
  EXPECT_EQ(weights_of(*whole), weights_of(*divided));
  if (!divides()) return;
  const auto failure = testing::caught([&] { divided->model.first().value(); });
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what(), HasSubstr("was read outside of a pass"));
}

TEST_P(DividedWeightsOfRanks, StayTheSameWhenLayersAreFrozenAndAdded) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  const auto whole = made(Sharding::none), divided = made(Sharding::weights);
  std::vector<std::unique_ptr<Linear>> late;
  for (Run* run : {whole.get(), divided.get()}) {
    train(*run, 3);
    run->optimizer->freeze("h1/**");
    train(*run, 3);
    run->optimizer->unfreeze("h1/**");
    train(*run, 3);
    late.push_back(std::make_unique<Linear>(std::nullopt, width));
    late.back()->initialize(3);
    run->model.add("late", *late.back());
    for (std::uint64_t step = 0; step < 3; ++step)
      run->optimizer->update(
          [&] {
            const Tensor x = examples(step);
            return run->model.loss(x) +
                   F::mean_squared_error((*late.back())(Variable(x)), examples(step + 9));
          },
          step == 0 && rank() == 0 && size() > 1 ? 0 : batch);
  }
  expect_same(*whole, *divided);
}

// A result that is a view of a parameter's memory is used after the parameter's unit has gone.
TEST_P(DividedWeightsOfRanks, LastInReshapedResults) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  const auto whole = made(Sharding::none), divided = made(Sharding::weights);
  for (Run* run : {whole.get(), divided.get()}) {
    run->model.reshapes = true;
    train(*run, 6);
  }
  expect_same(*whole, *divided);
}

TEST_P(DividedWeightsOfRanks, RefuseASecondSetup) {
  if (!divides()) GTEST_SKIP() << "one rank has all weights";
  const auto run = made(Sharding::weights);
  const auto failure = testing::caught([&] { run->optimizer->setup(run->model); });
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what(), HasSubstr("setup() a second time"));
}

TEST_P(DividedWeightsOfRanks, RefuseGroupsOnANode) {
  if (size() < 4 || communicator_->inter_size() > 1 || !communicator_->shares_memory())
    GTEST_SKIP() << "needs four ranks that share memory on one node";
  Chain model;
  const auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator_);
  optimizer->shard(Sharding::weights);
  optimizer->weights().share(true, rank() % 2);
  const auto failure = testing::caught([&] { optimizer->setup(model); });
  ASSERT_TRUE(failure);
  EXPECT_THAT(failure->what(), HasSubstr("not in several groups"));
}

// All ranks throw at the same place, and go on.
TEST_P(DividedWeightsOfRanks, RefuseAnotherOrder) {
  if (!divides()) GTEST_SKIP() << "one rank has all weights";
  const auto run = made(Sharding::weights);
  train(*run, 2);
  run->model.swaps = true;
  const auto failure = testing::caught([&] { train(*run, 1); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::usage);
  EXPECT_THAT(failure->what(), HasSubstr("is used in another order than in the first pass"));
}

TEST_P(DividedWeightsOfRanks, RefuseOrdersThatDifferBetweenRanks) {
  if (!divides()) GTEST_SKIP() << "one rank has all weights";
  const auto run = made(Sharding::weights);
  run->model.swaps = rank() == 0;
  const auto failure = testing::caught([&] { train(*run, 1); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::disagreement);
  EXPECT_THAT(failure->what(), HasSubstr("all ranks must use layers in the same order"));
  // Nothing of it is left.
  run->model.swaps = false;
  train(*run, 3);
  if (!has_the_same_bits()) return;
  const auto whole = made(Sharding::none);
  train(*whole, 3);
  expect_same(*whole, *run);
}

TEST_P(DividedWeightsOfRanks, RefuseFunctionsOfTwoUnits) {
  if (!divides()) GTEST_SKIP() << "one rank has all weights";
  const auto run = made(Sharding::weights);
  const auto all = run->model.parameters();
  const auto at = [&](const std::string& path) -> const Parameter& {
    return *std::ranges::find(all, path, &Module::NamedParameter::path)->parameter;
  };
  const auto both = [&] { return F::linear(Variable(examples(0)), at("h0/a/W"), at("h4/a/b")); };
  for (const bool trains : {true, false}) {
    const auto failure = testing::caught([&] {
      if (trains)
        run->optimizer->update(
            [&] {
              const Variable y = both();
              return F::mean_squared_error(y, Tensor::zeros(y.shape()));
            },
            batch);
      else
        run->optimizer->evaluating([&] {
          const NoGrad no_grad;
          both();
        });
    });
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->kind(), ErrorKind::usage);
    EXPECT_THAT(failure->what(), HasSubstr("together with weights of another unit"));
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, DividedWeightsOfRanks, ::testing::Values("naive", "auto"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
