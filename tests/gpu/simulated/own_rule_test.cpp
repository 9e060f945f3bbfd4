// A user's update rule trains on a GPU with its own kernel.
#include "own_rule.hpp"

#include <gtest/gtest.h>

#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"
#include "tests/gpu/device.hpp"
#include "tests/optimizer/own_rules.hpp"
#include "training/recording/step_runner.hpp"

namespace F = tasuki::functions;

namespace tasuki::testing {
namespace {

class OwnMomentumOnGpu final : public OwnMomentum {
 public:
  bool has_gpu_kernel() const override { return true; }
  void apply_on_gpu(const RuleArena& arena) const override { launch_own_momentum(arena); }
};

std::vector<float> train(std::unique_ptr<Optimizer> optimizer, Device device, DType type) {
  Linear model{40, 30};
  model.initialize(1);
  model.to(device);
  optimizer->compute_in(type);
  optimizer->setup(model);
  if (type == DType::float16) optimizer->guard().scale_losses({});
  optimizer->add_hook(weight_decay(0.1));
  optimizer->add_hook(gradient_clipping(1));
  optimizer->add_group({.pattern = "b", .rate_factor = 2, .weight_decay = 0});
  for (int step = 0; step < 6; ++step) {
    Tensor x = Tensor::full({8, 40}, 0.01 * step);
    for (std::int64_t i = 0; i < x.count(); ++i)
      x.data<float>()[i] += 1e-3F * static_cast<float>(i);
    const Tensor t = Tensor::full({8, 30}, 0.5);
    optimizer->update(
        [&] {
          return F::mean_squared_error(model(Variable(x.to(type).to(device))),
                                       t.to(type).to(device));
        },
        8);
  }
  const Tensor rounded = optimizer->arena().rounded();
  const Tensor host =
      (rounded ? rounded.to(DType::float32) : optimizer->arena().values()).to(Device::cpu());
  return {host.span<float>().begin(), host.span<float>().end()};
}

TEST(OwnRuleOnGpu, MatchesTheBuiltInRule) {
  ASSERT_EQ(why_no_gpu(), std::nullopt);
  const Device gpu = Device::cuda(0);
  for (const DType type : {DType::float32, DType::float16}) {
    const auto own =
        train(std::make_unique<Optimizer>(std::make_shared<OwnMomentumOnGpu>()), gpu, type);
    const auto expected = train(create_optimizer("momentum_sgd"), gpu, type);
    ASSERT_EQ(own.size(), expected.size());
    for (std::size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], expected[i], 1e-6) << i;
  }
}

// Its launches are part of the recorded step, and read the numbers of each replay.
TEST(OwnRuleOnGpu, IsRecorded) {
  ASSERT_EQ(why_no_gpu(), std::nullopt);
  const auto train_with = [](GraphMode mode) {
    Linear model{5, 4};
    model.initialize(1);
    model.to(Device::cuda(0));
    Optimizer optimizer(std::make_shared<OwnMomentumOnGpu>());
    optimizer.setup(model);
    optimizer.add_group({.pattern = "b", .rate_factor = 2});
    StepRunner runner({&optimizer}, {.graph = mode});
    for (int step = 1; step <= 9; ++step) {
      optimizer.set("lr", 0.01 * step);
      const Batch batch({{.name = "x", .values = Tensor::full({3, 5}, 0.1 * step)}}, {0, 1, 2});
      Observation seen;
      runner.run(
          batch, seen,
          [&](const Batch& on_gpu, Observation&) {
            const auto loss = [&] {
              return F::mean_squared_error(model(Variable(on_gpu["x"])),
                                           Tensor::zeros({3, 4}, DType::float32, Device::cuda(0)));
            };
            optimizer.update(loss, 3);
          },
          "");
    }
    EXPECT_EQ(runner.recordings(), mode == GraphMode::on ? 1 : 0);
    const Tensor host = optimizer.arena().values().to(Device::cpu());
    return std::vector<float>(host.span<float>().begin(), host.span<float>().end());
  };
  EXPECT_EQ(train_with(GraphMode::on), train_with(GraphMode::off));
}

}  // namespace
}  // namespace tasuki::testing
