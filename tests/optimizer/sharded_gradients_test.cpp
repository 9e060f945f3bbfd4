// Ranks that keep sums of gradients in their slice only: the memory that it takes, and passes whose
// ranges need each other's slots.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "communicators.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/loss.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

namespace F = functions;
using ::testing::HasSubstr;

constexpr std::int64_t width = 64, batch = 4;

// Layers of 64 x 64, registered in the order of use or in the reverse one. The first is also the
// last one: its gradients are begun first and ended last.
class Tower : public Module {
 public:
  Tower(int layers, bool is_reversed) {
    for (int i = 0; i < layers; ++i) layers_.push_back(std::make_unique<Linear>(width, width));
    for (int i = 0; i < layers; ++i) {
      const int number = is_reversed ? layers - 1 - i : i;
      add("l" + std::to_string(number), *layers_[static_cast<std::size_t>(number)]);
    }
    initialize(1);
  }
  Variable loss(const Tensor& x) {
    Variable h(x);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      h = F::tanh((*layers_[i])(h));
      if (i != layers_.size() / 2) continue;
      if (fails) h = failing(h);
      if (poisons) h = poisoned(h);
    }
    h = (*layers_.front())(h);
    return F::mean_squared_error(h, Tensor::zeros(h.shape()));
  }

  // In the middle of the backward pass: an exception; a gradient that is not finite.
  bool fails = false, poisons = false;
  using Module::add;

 private:
  static Variable poisoned(const Variable& x) {
    class Poisons final : public Function {
     public:
      const char* name() const override { return "Poisons"; }
      void backward(const Tensor& dy, Gradients& gradients) override {
        gradients.add(0, Tensor::full(dy.shape(), NAN));
      }
    };
    return Function::record(x.value(), {x}, [] { return std::make_unique<Poisons>(); });
  }
  static Variable failing(const Variable& x) {
    class Fails final : public Function {
     public:
      const char* name() const override { return "Fails"; }
      void backward(const Tensor& /*dy*/, Gradients& /*gradients*/) override {
        fail(ErrorKind::usage, "as planned");
      }
    };
    return Function::record(x.value(), {x}, [] { return std::make_unique<Fails>(); });
  }

  std::vector<std::unique_ptr<Linear>> layers_;
};

std::size_t resident_bytes(const Tensor& array) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t pages = (array.storage()->bytes() + page - 1) / page;
  std::vector<unsigned char> is_resident(pages);
  EXPECT_EQ(mincore(array.storage()->data(), array.storage()->bytes(), is_resident.data()), 0);
  return page * static_cast<std::size_t>(std::ranges::count_if(
                    is_resident, [](unsigned char each) { return (each & 1) != 0; }));
}

class ShardedGradients : public testing::WithCommunicator {
 protected:
  struct Run {
    Run(int layers, bool is_reversed) : model(layers, is_reversed) {}
    Tower model;
    std::unique_ptr<Optimizer> optimizer;
    const ParameterArena& arena() const { return optimizer->arena(); }
  };
  std::unique_ptr<Run> made(Sharding what, ExchangeSettings settings = {}, int layers = 12,
                            bool is_reversed = false) {
    auto run = std::make_unique<Run>(layers, is_reversed);
    run->optimizer = create_multi_node_optimizer(create_optimizer("adam"), *communicator_);
    run->optimizer->set("alpha", 0.01);
    run->optimizer->shard(what);
    if (settings.range_bytes == 0) settings.range_bytes = width * width * 4;
    run->optimizer->set_exchange(settings);
    run->optimizer->setup(run->model);
    return run;
  }
  Tensor examples(std::uint64_t step) const {
    RandomStream random(step, static_cast<std::uint64_t>(rank()));
    Tensor x = Tensor::empty({batch, width});
    for (float& value : x.span<float>()) value = random.normal();
    return x;
  }
  void train(Run& run, std::uint64_t steps) const {
    for (std::uint64_t step = 0; step < steps; ++step) {
      const Tensor x = examples(step);
      run.optimizer->update([&] { return run.model.loss(x); }, batch);
    }
  }
  void expect_same(const Run& a, const Run& b) const {
    for (const std::string& name : a.optimizer->states().names())
      EXPECT_EQ(testing::values_of(a.optimizer->states().gather(name)),
                testing::values_of(b.optimizer->states().gather(name)))
          << name;
    EXPECT_EQ(testing::values_of(a.arena().values()), testing::values_of(b.arena().values()));
  }
  // Sums by messages are rounded as ranges divide them, except sums of two numbers.
  bool has_the_same_bits() const {
    return communicator_->inter_size() <= 2 && (GetParam() != "naive" || size() <= 2);
  }
};

TEST_P(ShardedGradients, TrainLikeWholeOnes) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  for (const bool is_reversed : {false, true}) {
    const auto whole = made(Sharding::none, {}, 12, is_reversed);
    train(*whole, 6);
    for (const auto mode :
         {std::optional<ExchangeMode>(), std::optional(ExchangeMode::overlapped),
          std::optional(ExchangeMode::slices), std::optional(ExchangeMode::thread)}) {
      const auto sharded = made(Sharding::gradients, {.mode = mode}, 12, is_reversed);
      EXPECT_EQ(sharded->arena().keeps_sums_only(), size() > 1);
      train(*sharded, 6);
      expect_same(*whole, *sharded);
    }
  }
}

TEST_P(ShardedGradients, TakeTheMemoryOfTheirSliceAndFewRanges) {
  if (size() == 1) GTEST_SKIP() << "one rank has all gradients";
  constexpr int layers = 24;
  const auto run = made(Sharding::gradients, {}, layers);
  train(*run, 4);
  const auto& arena = run->arena();
  const Range own = run->optimizer->states().owners().own();
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  // The slice, a page at each of its ends, and that of the notices.
  EXPECT_LE(resident_bytes(arena.gradients()), static_cast<std::size_t>(own.size()) * 4 + 3 * page);
  const GradientExchange& exchange = *run->optimizer->step_exchange().gradient_exchange();
  std::int64_t largest = 0;
  for (const Range& range : exchange.ranges()) largest = std::max(largest, range.size());
  // Two slots, and the range of the layer that is used twice, which waits outside.
  EXPECT_LE(exchange.bytes(), static_cast<std::size_t>(3 * largest) * 4);
  EXPECT_LE(largest, 2 * width * width);
}

// The passes of a step are exchanged one by one, with an exchange of notices alone behind them, or
// with the last one's.
TEST_P(ShardedGradients, AddUpTheBatchesOfAStep) {
  for (const bool exchanges_with_last : {false, true}) {
    const auto whole = made(Sharding::none), sharded = made(Sharding::gradients);
    for (Run* run : {whole.get(), sharded.get()})
      for (std::uint64_t step = 0; step < 5; ++step) {
        StepScope scope;
        std::optional<std::int64_t> all;
        for (std::uint64_t pass = 0; pass < 3; ++pass) {
          // Rank 0 has no examples in the second one.
          const std::int64_t own = pass == 1 && rank() == 0 ? 0 : batch;
          const Tensor x = examples(3 * step + pass);
          const Variable loss = run->optimizer->forward([&] { return run->model.loss(x); }, own);
          if (exchanges_with_last && pass == 2)
            all = run->optimizer->backward_and_exchange(loss, own);
          else
            run->optimizer->backward(loss, own);
        }
        if (!all) all = run->optimizer->exchange();
        EXPECT_EQ(*all, (3 * size() - 1) * batch);
        run->optimizer->update(*all);
        scope.succeeded();
      }
    const Tensor a = whole->arena().values(), b = sharded->arena().values();
    for (std::int64_t i = 0; i < a.count(); ++i)
      ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-5F);
  }
}

// Two optimizers of one communicator, whose passes take turns, each find what is not finite in
// their own sums, in whichever pass it was, and leave the step out.
TEST_P(ShardedGradients, FindNumbersThatAreNotFiniteInAnyPass) {
  const auto first = made(Sharding::gradients), second = made(Sharding::gradients);
  for (Run* run : {first.get(), second.get()}) run->optimizer->guard().skip_non_finite();
  const auto step = [&](Run* poisoned, int in_pass) {
    const auto before = testing::values_of(first->arena().values());
    StepScope scope;
    for (int pass = 0; pass < 2; ++pass)
      for (Run* run : {first.get(), second.get()}) {
        run->model.poisons = run == poisoned && pass == in_pass && rank() == size() - 1;
        const Variable loss =
            run->optimizer->forward([&] { return run->model.loss(examples(1)); }, batch);
        run->optimizer->backward(loss, batch);
      }
    for (Run* run : {first.get(), second.get()}) run->optimizer->update(run->optimizer->exchange());
    scope.succeeded();
    return testing::values_of(first->arena().values()) != before;
  };
  for (const int pass : {0, 1}) {
    EXPECT_FALSE(step(first.get(), pass));
    EXPECT_TRUE(step(second.get(), pass));
    EXPECT_TRUE(step(nullptr, 0));
    EXPECT_EQ(first->optimizer->guard().skipped(), pass + 1);
    EXPECT_EQ(second->optimizer->guard().skipped(), pass + 1);
  }
}

// Passes of a step that was left do not count in the next one.
TEST_P(ShardedGradients, ForgetAStepThatWasLeft) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  const auto whole = made(Sharding::none), sharded = made(Sharding::gradients);
  for (Run* run : {whole.get(), sharded.get()}) {
    train(*run, 2);
    {
      StepScope scope;
      const Variable loss =
          run->optimizer->forward([&] { return run->model.loss(examples(5)); }, batch);
      run->optimizer->backward(loss, batch);
    }
    train(*run, 2);
  }
  expect_same(*whole, *sharded);
}

TEST_P(ShardedGradients, RejectDifferentNumbersOfPasses) {
  if (size() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  const auto run = made(Sharding::gradients);
  const auto failure = testing::caught([&] {
    StepScope scope;
    const auto loss = [&] {
      return run->optimizer->forward([&] { return run->model.loss(examples(1)); }, batch);
    };
    if (rank() == 0) run->optimizer->backward(loss(), batch);
    run->optimizer->backward_and_exchange(loss(), batch);
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::disagreement);
  EXPECT_THAT(failure->what(), HasSubstr("as many backward passes on all ranks"));
}

TEST_P(ShardedGradients, RejectShapesThatAreFoundInTheMiddleOfAStep) {
  if (size() == 1) GTEST_SKIP() << "one rank has all gradients";
  const auto run = made(Sharding::gradients);
  Linear late(std::nullopt, width);
  late.initialize(3);
  run->model.add("late", late);
  run->optimizer->update([&] { return run->model.loss(examples(1)); }, batch);
  const auto failure = testing::caught([&] {
    StepScope scope;
    for (const bool uses_late : {false, true}) {
      const Variable loss = run->optimizer->forward(
          [&] {
            const Variable of_model = run->model.loss(examples(1));
            if (!uses_late) return of_model;
            return of_model + F::mean_squared_error(late(Variable(examples(2))), examples(2));
          },
          batch);
      run->optimizer->backward(loss, batch);
    }
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind(), ErrorKind::usage);
  EXPECT_THAT(failure->what(), HasSubstr("between two batches of a step"));
}

// Slots and ranges that are moved out use their memory again.
TEST_P(ShardedGradients, CauseNoPageFaultsInEachStep) {
  if (size() == 1) GTEST_SKIP() << "one rank has all gradients";
  const auto run = made(Sharding::gradients, {}, 48);
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
  };
  train(*run, 16);
  const auto before = faults();
  constexpr std::int64_t steps = 20;
  train(*run, steps);
  const auto pages =
      static_cast<std::int64_t>(run->arena().gradients().bytes()) / sysconf(_SC_PAGESIZE);
  EXPECT_LT(faults() - before, steps * pages / 4) << pages << " pages of gradients";
}

// A pass that fails on all ranks in the same function leaves nothing behind.
TEST_P(ShardedGradients, GoOnAfterAPassThatFailed) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  const auto whole = made(Sharding::none), sharded = made(Sharding::gradients);
  for (Run* run : {whole.get(), sharded.get()}) {
    train(*run, 3);
    run->model.fails = true;
    const auto failure = testing::caught([&] { train(*run, 1); });
    ASSERT_TRUE(failure);
    EXPECT_THAT(failure->what(), HasSubstr("as planned"));
    run->model.fails = false;
    train(*run, 3);
  }
  expect_same(*whole, *sharded);
}

// Outside of an exchange, as where memory is measured, gradients have no lasting place.
TEST_P(ShardedGradients, SurvivePassesWithoutAnExchange) {
  if (!has_the_same_bits())
    GTEST_SKIP() << "messages of three ranks round sums as ranges divide them";
  const auto whole = made(Sharding::none), sharded = made(Sharding::gradients);
  for (Run* run : {whole.get(), sharded.get()}) {
    train(*run, 2);
    run->model.loss(examples(9)).backward();
    train(*run, 3);
  }
  expect_same(*whole, *sharded);
}

INSTANTIATE_TEST_SUITE_P(Kinds, ShardedGradients,
                         ::testing::Values("naive", "auto", "hierarchical", "two_dimensional"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace tasuki
