// Two models with an optimizer each, which learn from losses of one forward pass: the way of GANs.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "communicator/registry.hpp"
#include "dataset/iterators/share_iterator.hpp"
#include "nn/connection.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/loss.hpp"
#include "nn/module.hpp"
#include "nn/normalization.hpp"
#include "parallel/multi_node_batch_norm.hpp"
#include "same_run.hpp"
#include "saving/npz.hpp"
#include "tensor/late_values.hpp"
#include "tests/support/temporary_folder.hpp"
#include "training/extensions/fail_on_non_number.hpp"
#include "training/extensions/shift.hpp"
#include "training/extensions/snapshot.hpp"
#include "training/joint_updater.hpp"
#include "training/resume.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::share_of;
using testing::synthetic;
using testing::TemporaryFolder;

// The first model's result is the second one's input, and each has a loss of the second's results.
struct Pair {
  Linear first{12, 5}, second{5, 1};

  Pair() {
    first.initialize(1);
    second.initialize(2);
  }
  std::vector<Variable> losses(const Batch& batch) {
    const Tensor& x = batch["x"];
    const Variable result = second(first(Variable(x)));
    const auto distance = [&](double target) {
      return F::mean_squared_error(result, Tensor::full(result.shape(), target));
    };
    return {distance(1), distance(-2)};
  }
};

class SeveralOptimizers : public ::testing::TestWithParam<const char*> {
 protected:
  using Weights = std::vector<float>;

  std::unique_ptr<Iterator> batches() {
    return create_shuffled_iterator(share_of(synthetic(41), ranks.get(), 6), 6, 3);
  }
  std::unique_ptr<Optimizer> optimizer_of(Module& model) {
    auto optimizer = create_multi_node_optimizer(create_optimizer("adam"), *ranks);
    optimizer->set_exchange(exchange);
    optimizer->setup(model);
    return optimizer;
  }
  static Weights weights_of(const Module& model) {
    Weights all;
    for (const Module::NamedParameter& named : model.parameters()) {
      const auto values = named.parameter->value().span<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }

  struct Run {
    Pair pair;
    std::unique_ptr<Optimizer> gen, dis;
    std::unique_ptr<Trainer> trainer;
    std::function<void(std::vector<Variable>&)> spoil;  // losses of each step; empty: as they are
    Run(SeveralOptimizers& test, std::int64_t iterations, const std::string& out,
        std::int64_t accumulate = 1, bool skips_non_finite = false) {
      gen = test.optimizer_of(pair.first);
      dis = test.optimizer_of(pair.second);
      if (skips_non_finite) {
        gen->guard().skip_non_finite();
        dis->guard().skip_non_finite();
      }
      JointUpdater::Settings settings;
      settings.accumulate = accumulate;
      auto updater = std::make_unique<JointUpdater>(
          test.batches(), NamedOptimizers{{"gen", gen.get()}, {"dis", dis.get()}},
          [this](const Batch& batch, Observation&) {
            std::vector<Variable> losses = pair.losses(batch);
            if (spoil) spoil(losses);
            return losses;
          },
          settings);
      trainer = std::make_unique<Trainer>(std::move(updater), stop_after(100, iterations), out);
    }
  };

  // What the updater should do, with a forward pass for each loss, in which the other model is
  // constant.
  std::unique_ptr<Pair> expected_after(int iterations) {
    auto made = std::make_unique<Pair>();
    Pair& pair = *made;
    const auto first = optimizer_of(pair.first), second = optimizer_of(pair.second);
    const auto data = batches();
    for (int i = 0; i < iterations; ++i) {
      const Batch batch = data->next();
      StepScope step;
      const auto pass = [&](Optimizer& optimizer, Module& other, std::size_t loss) {
        return optimizer.backward_and_exchange(optimizer.forward(
                                                   [&] {
                                                     const ConstantParameters constants(other);
                                                     return pair.losses(batch)[loss];
                                                   },
                                                   batch.size()),
                                               batch.size());
      };
      const std::int64_t of_first = pass(*first, pair.second, 0);
      const std::int64_t of_second = pass(*second, pair.first, 1);
      first->update(of_first);
      second->update(of_second);
      step.succeeded();
    }
    return made;
  }

  std::unique_ptr<Communicator> ranks = create_communicator(GetParam());
  ExchangeSettings exchange;
  TemporaryFolder folder;
};

// One rank's losses are not finite: of both models in step 4, of the second one in step 6. A step
// is left out as a whole, as if it had not been.
TEST_P(SeveralOptimizers, SkipTheSameStepsOnAllRanks) {
  Run run(*this, 9, folder / "out", 1, true);
  run.trainer->extend(std::make_unique<FailOnNonNumber>());
  run.spoil = [&](std::vector<Variable>& losses) {
    const std::int64_t step = run.trainer->updater().iteration() + 1;
    if (ranks->rank() != ranks->size() - 1 || (step != 4 && step != 6)) return;
    const Variable bad(Tensor::full({}, std::numeric_limits<float>::quiet_NaN()));
    if (step == 4) losses[0] = losses[0] + bad;
    losses[1] = losses[1] + bad;
  };
  std::vector<std::int64_t> left_out_by_first, left_out_by_second;
  Weights first = weights_of(run.pair.first), second = weights_of(run.pair.second);
  run.trainer->extend(make_extension("compare", [&](Trainer& training) {
    const std::int64_t step = training.updater().iteration();
    const Weights new_first = weights_of(run.pair.first), new_second = weights_of(run.pair.second);
    if (new_first == first) left_out_by_first.push_back(step);
    if (new_second == second) left_out_by_second.push_back(step);
    first = new_first;
    second = new_second;
    EXPECT_EQ(training.observation().mean("skipped"), step == 4 || step == 6 ? 1 : 0);
  }));
  run.trainer->run();
  EXPECT_EQ(left_out_by_first, (std::vector<std::int64_t>{4, 6}));
  EXPECT_EQ(left_out_by_second, (std::vector<std::int64_t>{4, 6}));
  for (const Optimizer* each : {run.gen.get(), run.dis.get()}) {
    EXPECT_EQ(each->guard().skipped(), 2);
    EXPECT_EQ(each->t(), 7);
  }
  for (const Weights& own : {first, second}) {
    const auto all = ranks->allgather(Tensor::from(std::span<const float>(own), {std::ssize(own)}));
    for (const Tensor& other : all)
      testing::expect_same_bits(other, all.front(), "weights of the ranks");
  }
}

TEST_P(SeveralOptimizers, LearnFromTheirOwnLosses) {
  for (const auto mode : {ExchangeMode::whole, ExchangeMode::slices, ExchangeMode::thread}) {
    exchange.mode = mode;
    Run run(*this, 9, folder / "out");
    run.trainer->run();
    const auto expected = expected_after(9);
    EXPECT_EQ(weights_of(run.pair.first), weights_of(expected->first));
    EXPECT_EQ(weights_of(run.pair.second), weights_of(expected->second));
  }
}

TEST_P(SeveralOptimizers, KeepWeightsEqualOnAllRanks) {
  for (const auto mode : {ExchangeMode::whole, ExchangeMode::double_buffered}) {
    exchange.mode = mode;
    Run run(*this, 9, folder / "out", 2);
    run.trainer->run();
    for (const Module* model :
         {static_cast<Module*>(&run.pair.first), static_cast<Module*>(&run.pair.second)}) {
      const Weights own = weights_of(*model);
      const auto all =
          ranks->allgather(Tensor::from(std::span<const float>(own), {std::ssize(own)}));
      for (const Tensor& other : all) EXPECT_TRUE(std::ranges::equal(other.span<float>(), own));
    }
  }
}

// Whichever pass comes first leaves the other what they share.
TEST_P(SeveralOptimizers, SupportLossesOfOneModel) {
  std::vector<Weights> found;
  for (const bool is_reversed : {false, true}) {
    Pair pair;
    const auto first = optimizer_of(pair.first), second = optimizer_of(pair.second);
    NamedOptimizers both{{"first", first.get()}, {"second", second.get()}};
    if (is_reversed) std::swap(both[0], both[1]);
    JointUpdater updater(
        batches(), both,
        [&](const Batch& batch, Observation&) {
          const Variable code = pair.first(Variable(batch["x"])), result = pair.second(code);
          std::vector losses{F::mean_squared_error(code, Tensor::full(code.shape(), 1)),
                             F::mean_squared_error(result, Tensor::full(result.shape(), -2))};
          if (is_reversed) std::swap(losses[0], losses[1]);
          return losses;
        },
        {});
    Observation seen;
    for (int i = 0; i < 3; ++i) updater.update(seen);
    found.push_back(weights_of(pair.first));
    const Weights of_second = weights_of(pair.second);
    found.back().insert(found.back().end(), of_second.begin(), of_second.end());
  }
  EXPECT_EQ(found[0], found[1]);
}

// A model whose passes exchange messages, and layers that get their shapes in the first pass.
class NormalisedModel : public Module {
 public:
  NormalisedModel() {
    add("linear", linear_);
    add("norm", norm_);
    add("last", last_);
    initialize(7);
  }
  Variable operator()(const Variable& x) { return last_(norm_(linear_(x))); }

 private:
  Linear linear_{std::nullopt, 4}, last_{4, 1};
  BatchNorm norm_{4};
};

// The last batch of 6 has one example; of batches of 1, one rank has the example.
TEST_P(SeveralOptimizers, IncludeRanksWithoutExamples) {
  for (const std::int64_t batch : {6, 1}) {
    for (const bool is_reversed : {false, true}) {
      Linear first{std::nullopt, 5};
      first.initialize(1);
      NormalisedModel second;
      convert_to_multi_node_batch_norm(second, *ranks);
      const auto one = optimizer_of(first), other = optimizer_of(second);
      NamedOptimizers both{{"first", one.get()}, {"second", other.get()}};
      if (is_reversed) std::swap(both[0], both[1]);
      JointUpdater updater(
          create_shuffled_iterator(share_of(synthetic(37), ranks.get(), 6), batch, 3), both,
          [&](const Batch& examples, Observation&) {
            const Variable result = second(first(Variable(examples["x"])));
            std::vector<Variable> losses;
            for (const double target : {1.0, -2.0})
              losses.push_back(F::mean_squared_error(result, Tensor::full(result.shape(), target)));
            return losses;
          },
          {});
      Observation seen;
      for (int i = 0; i < 8; ++i) updater.update(seen);
      for (const Module* model : {static_cast<Module*>(&first), static_cast<Module*>(&second)}) {
        const Weights own = weights_of(*model);
        const auto all =
            ranks->allgather(Tensor::from(std::span<const float>(own), {std::ssize(own)}));
        for (const Tensor& each : all) EXPECT_TRUE(std::ranges::equal(each.span<float>(), own));
      }
    }
  }
}

TEST_P(SeveralOptimizers, NameLossesAfterOptimizers) {
  Run run(*this, 1, folder / "out");
  run.trainer->run();
  const Observation& seen = run.trainer->observation();
  const double gen = seen.mean("main/gen/loss").value(), dis = seen.mean("main/dis/loss").value();
  EXPECT_NE(gen, dis);
  EXPECT_FLOAT_EQ(static_cast<float>(seen.mean("main/loss").value()),
                  static_cast<float>(gen + dis));
}

TEST_P(SeveralOptimizers, ResumeFromSnapshotsOfBoth) {
  Run whole(*this, 9, folder / "whole");
  whole.trainer->run();
  {
    Run cut(*this, 4, folder / "cut");
    cut.trainer->run();
    save_snapshot(folder / "state", *cut.trainer);
  }
  Run resumed(*this, 9, folder / "cut");
  resume(folder / "state", *resumed.trainer);
  resumed.trainer->run();
  EXPECT_EQ(weights_of(resumed.pair.first), weights_of(whole.pair.first));
  EXPECT_EQ(weights_of(resumed.pair.second), weights_of(whole.pair.second));
  for (const auto& [one, other] : {std::pair(resumed.gen.get(), whole.gen.get()),
                                   std::pair(resumed.dis.get(), whole.dis.get())}) {
    EXPECT_EQ(one->t(), 9);
    for (const std::string& name : one->states().names()) {
      const Tensor state = one->states().gather(name), expected = other->states().gather(name);
      EXPECT_TRUE(std::ranges::equal(state.span<float>(), expected.span<float>())) << name;
    }
  }
  if (ranks->rank() != 0) return;
  const NpzFile file(folder / "state");
  for (const char* name :
       {"updater/model:gen/W", "updater/model:dis/b", "updater/optimizer:gen/W/m",
        "updater/optimizer:dis/W/v", "updater/optimizer:dis/t", "updater/optimizer:gen/epoch"})
    EXPECT_TRUE(file.find(name)) << name;
}

TEST_P(SeveralOptimizers, ApplySchedulesToAll) {
  Run run(*this, 5, folder / "out");
  run.trainer->extend(exponential_shift("alpha", 0.5));
  run.trainer->run();
  EXPECT_FLOAT_EQ(static_cast<float>(run.gen->get("alpha")), 1e-3f / 32);
  EXPECT_EQ(run.dis->get("alpha"), run.gen->get("alpha"));
}

// One that searches sums while it computes them, and one that does not.
INSTANTIATE_TEST_SUITE_P(With, SeveralOptimizers, ::testing::Values("naive", "single_node"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace tasuki
