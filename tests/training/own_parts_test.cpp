// Replayed steps of programs' own parts give the bits of steps that are not recorded, and of a CPU.
#include "own_parts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dataset/iterators/share_iterator.hpp"
#include "nn/connection.hpp"
#include "nn/functions/activation.hpp"
#include "nn/functions/loss.hpp"
#include "nn/sequential.hpp"
#include "optimizer/optimizer.hpp"
#include "small_run.hpp"
#include "tests/support/guarded_device/guarded_device.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

using testing::Doubled;
using testing::Growing;
using testing::guarded_device_counts;
using ::testing::HasSubstr;
using testing::LarsEverywhere;
using testing::MomentumEverywhere;
using testing::Noise;
using testing::OwnClipping;
using testing::OwnDropout;
using testing::SmallRun;

const bool is_registered = [] {
  testing::register_guarded_device();
  return true;
}();

// --- trainings ---

using MakeOptimizer = std::function<std::unique_ptr<Optimizer>()>;

struct Outcome {
  std::vector<float> weights;
  std::vector<double> losses;
  bool operator==(const Outcome&) const = default;
};

// What a loss function makes of the model's result.
using Finish = std::function<Variable(const Batch& batch, const Variable& scores)>;

// 24 steps with full batches and short ones.
Outcome train(const MakeOptimizer& make, Device device, GraphMode graph,
              const Finish& finish = {}) {
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
      std::make_unique<Doubled>(SmallRun::on_device(
          create_shuffled_iterator(Share::whole(testing::synthetic(97)), 24, 3), options)),
      *optimizer,
      [&](const Batch& batch, Observation&) {
        const Variable scores = model(Variable(batch["x"]));
        return F::softmax_cross_entropy(finish ? finish(batch, scores) : scores, batch["t"]);
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
  static void expect_same_everywhere(const MakeOptimizer& make, bool replays,
                                     const Finish& finish = {}) {
    const Outcome cpu = train(make, Device::cpu(), GraphMode::off, finish);
    EXPECT_EQ(train(make, Device::cuda(0), GraphMode::off, finish), cpu);
    const auto before = guarded_device_counts();
    const GraphMode graph = replays ? GraphMode::on : GraphMode::automatic;
    EXPECT_EQ(train(make, Device::cuda(0), graph, finish), cpu);
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

TEST_F(OwnParts, TrainWithARule) {
  expect_same_everywhere([] { return with<MomentumEverywhere>(); }, true);
}

TEST_F(OwnParts, TrainWithARuleThatReadsNorms) {
  expect_same_everywhere([] { return with<LarsEverywhere>({weight_decay(0.01)}); }, true);
}

TEST_F(OwnParts, TrainWithAFactorHook) {
  expect_same_everywhere(
      [] {
        return with<MomentumEverywhere>({std::make_shared<Growing>(), weight_decay(0.01)});
      },
      true);
}

TEST_F(OwnParts, TrainWithAFactorHookOnABuiltInRule) {
  expect_same_everywhere(
      [] {
        auto adam = create_optimizer("adam");
        adam->add_hook(std::make_shared<Growing>());
        return adam;
      },
      true);
}

TEST_F(OwnParts, TrainWithAnArrayHook) {
  expect_same_everywhere(
      [] {
        return with<MomentumEverywhere>(
            {std::make_shared<Growing>(), std::make_shared<Noise>(), weight_decay(0.01)});
      },
      true);
}

// Clipping rounds on a device, where it scales the gradients, and on a CPU, where it leaves the
// scale to the update, at different places.
TEST_F(OwnParts, TrainWithAllKindsOfHooks) {
  const auto make = [] {
    auto optimizer =
        with<MomentumEverywhere>({std::make_shared<Noise>(), gradient_clipping(1),
                                  std::make_shared<Growing>(), gradient_lars(0.01, 0.05)});
    optimizer->add_group({.pattern = "**", .weight_decay = 0, .is_1d_only = true});
    return optimizer;
  };
  const Outcome cpu = train(make, Device::cpu(), GraphMode::off);
  const Outcome eager = train(make, Device::cuda(0), GraphMode::off);
  const auto before = guarded_device_counts();
  EXPECT_EQ(train(make, Device::cuda(0), GraphMode::on), eager);
  EXPECT_GT(guarded_device_counts().replays, before.replays);
  for (std::size_t i = 0; i < cpu.weights.size(); ++i)
    ASSERT_NEAR(eager.weights[i], cpu.weights[i], 1e-4) << i;
}

TEST_F(OwnParts, DoNotRecordNormHooks) {
  expect_same_everywhere(
      [] {
        return with<MomentumEverywhere>({weight_decay(0.01), std::make_shared<OwnClipping>()});
      },
      false);
}

TEST_F(OwnParts, DoNotRecordLossesThatReadTheEpoch) {
  expect_same_everywhere([] { return with<MomentumEverywhere>(); }, false,
                         [](const Batch& batch, const Variable& scores) {
                           return batch.epoch() < 2 ? scores : F::relu(scores);
                         });
}

TEST_F(OwnParts, RejectRulesWithoutAKernelOnDevices) {
  Linear model{2, 3};
  model.initialize(1);
  model.to(Device::cuda(0));
  Optimizer optimizer(std::make_shared<testing::OwnMomentum>());
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
