// A rule, hooks and a random function as programs write them, without a word on recordings: steps
// that are replayed are those of a device that does not record, and those of a CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "../optimizer/own_rules.hpp"
#include "guarded_device/guarded_device.hpp"
#include "small_run.hpp"
#include "tasuki/core/philox.hpp"
#include "tasuki/nn/function.hpp"
#include "tasuki/nn/functions/softmax_cross_entropy.hpp"
#include "tasuki/nn/linear.hpp"
#include "tasuki/nn/sequential.hpp"
#include "tasuki/optimizer/optimizer.hpp"
#include "tasuki/tensor/backend.hpp"
#include "tasuki/tensor/late.hpp"

#include "small_run.hpp"

namespace tasuki {
namespace {

using testing::guarded_device_counts;
using ::testing::HasSubstr;
using testing::SmallRun;

const bool is_registered = [] {
  testing::register_guarded_device();
  return true;
}();

// --- as programs write them ---

// With a kernel for the device of this test.
class MomentumEverywhere final : public test::OwnMomentum {
 public:
  std::string name() const override { return "MomentumEverywhere"; }
  bool has_gpu_kernel() const override { return true; }
  void apply_on_gpu(const RuleArena& arena) const override {
    testing::on_guarded_device([arena, v = arena.states[0]] {
      for (std::int64_t i = 0; i < arena.count; ++i) {
        const UpdateFactors& k =
            arena.factors[arena.rows != nullptr ? arena.rows[i / elements_per_row_number] : 0];
        const float g = k.scale * arena.gradients[i] + k.decay * arena.parameters[i];
        v[i] = k.of_rule[1] * v[i] - k.of_rule[0] * g;
        arena.parameters[i] += v[i];
      }
    });
  }
};

// The same as OwnLars, with the norms that a device has.
class LarsEverywhere final : public test::OwnLars {
 public:
  std::string name() const override { return "LarsEverywhere"; }
  bool has_gpu_kernel() const override { return true; }
  void apply_on_gpu(const RuleArena& arena) const override {
    testing::on_guarded_device([arena] {
      for (std::int64_t i = 0; i < arena.count; ++i) {
        const UpdateFactors& k =
            arena.factors[arena.rows != nullptr ? arena.rows[i / elements_per_row_number] : 0];
        const double* const norms = arena.norms + 2 * arena.parameter_of[i / 16];
        const auto rate = static_cast<float>(k.of_rule[0] * norms[0] / norms[1]);
        arena.parameters[i] -=
            rate * (k.scale * arena.gradients[i] + k.decay * arena.parameters[i]);
      }
    });
  }
};

// Gradients that grow with the updates, and those of biases more.
struct Growing final : FactorHook {
  std::string name() const override { return "Growing"; }
  void adjust(GradientFactors& factors, const ParameterInfo& parameter,
              std::int64_t t) const override {
    factors.scale *= 1 + 0.1 * static_cast<double>(t);
    if (parameter.shape.rank() == 1) factors.decay += 0.01 * static_cast<double>(t);
  }
};

// Adds noise that is another one in each step.
class Noise final : public ArrayHook {
 public:
  std::string name() const override { return "Noise"; }
  void apply(const GradientArrays& arrays) override {
    const Tensor noise = noise_.on(arrays.device(), arrays.gradients.count());
    backend(arrays.device()).accumulate(arrays.gradients, noise, 1);
    counted_.request();
  }

 private:
  std::int64_t steps_ = 0;
  LateValues<float> noise_{[this](std::span<float> out) {
    RandomStream random(9, static_cast<std::uint64_t>(steps_));
    for (float& value : out) value = 1e-3F * random.normal();
    // Padding has none.
    std::fill(out.begin() + 4, out.begin() + 16, 0.0F);
  }};
  AfterStep counted_{[this] { ++steps_; }};
};

// Clipping that asks for the norms.
struct OwnClipping final : NormHook {
  std::string name() const override { return "OwnClipping"; }
  void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms>, double all,
              std::int64_t) const override {
    for (GradientFactors& each : factors) each.scale = std::min(1.0, 0.5 / all);
  }
};

// Dropout with seeds of its own: another mask in each step, whatever the examples are.
class OwnDropout {
 public:
  Variable operator()(const Variable& x) {
    const Device device = x.value().device();
    const Tensor seed = seed_.on(device, 1), rows = rows_.on(device, x.shape()[0]);
    const auto drop = [seed, rows](const Tensor& values) {
      return backend(values.device()).dropout(values, 0.3F, seed, rows);
    };
    class Dropping final : public Function {
     public:
      explicit Dropping(std::function<Tensor(const Tensor&)> drop) : drop_(std::move(drop)) {}
      const char* name() const override { return "own_dropout"; }
      void backward(const Tensor& dy, Gradients& gradients) override {
        if (gradients.needed(0)) gradients.add(0, drop_(dy));
      }

     private:
      std::function<Tensor(const Tensor&)> drop_;
    };
    counted_.request();
    return Function::record(drop(x.value()), {x}, [&] { return std::make_unique<Dropping>(drop); });
  }

 private:
  std::int64_t steps_ = 0;
  LateValues<std::int64_t> seed_{[this](std::span<std::int64_t> out) { out[0] = 77 + steps_; }};
  LateValues<std::int64_t> rows_{[](std::span<std::int64_t> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::int64_t>(i);
  }};
  AfterStep counted_{[this] { ++steps_; }};
};

// --- trainings ---

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

struct Outcome {
  std::vector<float> weights;
  std::vector<double> losses;
  bool operator==(const Outcome&) const = default;
};

// Twelve steps with full batches and short ones.
Outcome train(const MakeOptimizer& make, Device device, GraphMode graph) {
  Sequential model;
  OwnDropout drop;
  model.append("l1", std::make_unique<Linear>(12, 16));
  model.append([&drop](const Variable& x) { return drop(x); });
  model.append("l2", std::make_unique<Linear>(16, 4));
  model.initialize(5);
  model.to(device);
  const auto optimizer = make();
  optimizer->setup(model);
  SmallRun::Options options;
  options.device = device;
  StandardUpdater updater(
      SmallRun::on_device(create_shuffled_iterator(Share::whole(testing::synthetic(97)), 24, 3),
                          options),
      *optimizer,
      [&](const Batch& batch, Observation&) {
        return softmax_cross_entropy(model(Variable(batch["x"])), batch["t"]);
      },
      {.seed = 3, .graph = graph});
  Outcome outcome;
  for (int step = 0; step < 24; ++step) {
    Observation seen;
    updater.update(seen);
    outcome.losses.push_back(seen.mean("main/loss").value());
  }
  const Tensor host = optimizer->arena().values().to(Device::cpu());
  outcome.weights.assign(host.span<float>().begin(), host.span<float>().end());
  return outcome;
}

class OwnParts : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(is_registered); }
  // Whether replays happened is said by `replays`.
  static void expect_same_everywhere(const MakeOptimizer& make, bool replays) {
    const Outcome cpu = train(make, Device::cpu(), GraphMode::off);
    EXPECT_EQ(train(make, Device::cuda(0), GraphMode::off), cpu);
    const auto before = guarded_device_counts();
    EXPECT_EQ(train(make, Device::cuda(0), replays ? GraphMode::on : GraphMode::automatic), cpu);
    EXPECT_EQ(guarded_device_counts().replays > before.replays, replays);
    EXPECT_GT(cpu.losses.front(), cpu.losses.back());
  }
};

template <class Rule>
std::unique_ptr<Optimizer> with(const std::vector<std::shared_ptr<OptimizerHook>>& hooks = {}) {
  auto optimizer = std::make_unique<Optimizer>(std::make_shared<Rule>());
  for (const auto& hook : hooks) optimizer->add_hook(hook);
  optimizer->add_group({.pattern = "l2/*", .rate_factor = 0.5});
  return optimizer;
}

TEST_F(OwnParts, ARule) {
  expect_same_everywhere([] { return with<MomentumEverywhere>(); }, true);
}

TEST_F(OwnParts, ARuleThatReadsNorms) {
  expect_same_everywhere([] { return with<LarsEverywhere>({weight_decay(0.01)}); }, true);
}

TEST_F(OwnParts, AFactorHook) {
  expect_same_everywhere(
      [] {
        return with<MomentumEverywhere>({std::make_shared<Growing>(), weight_decay(0.01)});
      },
      true);
}

TEST_F(OwnParts, AFactorHookOfABuiltInRule) {
  expect_same_everywhere(
      [] {
        auto adam = create_optimizer("adam");
        adam->add_hook(std::make_shared<Growing>());
        return adam;
      },
      true);
}

TEST_F(OwnParts, AnArrayHook) {
  expect_same_everywhere(
      [] {
        return with<MomentumEverywhere>(
            {std::make_shared<Growing>(), std::make_shared<Noise>(), weight_decay(0.01)});
      },
      true);
}

TEST_F(OwnParts, ANormHookIsNotRecorded) {
  expect_same_everywhere(
      [] {
        return with<MomentumEverywhere>({weight_decay(0.01), std::make_shared<OwnClipping>()});
      },
      false);
}

TEST_F(OwnParts, ARuleWithoutAKernelIsRefusedByADevice) {
  Linear model{2, 3};
  model.initialize(1);
  model.to(Device::cuda(0));
  Optimizer optimizer(std::make_shared<test::OwnMomentum>());
  try {
    optimizer.setup(model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unavailable);
    EXPECT_THAT(error.what(), HasSubstr("optimizer OwnMomentum has no kernel for cuda:0"));
  }
}

}  // namespace
}  // namespace tasuki
