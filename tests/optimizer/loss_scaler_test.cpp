#include "optimizer/loss_scaler.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "core/error.hpp"
#include "nn/connection.hpp"
#include "nn/functions/loss.hpp"
#include "optimizer/optimizer.hpp"

namespace F = tasuki::functions;

namespace tasuki {
namespace {

LossScaler::Settings settings(double initial, std::int64_t interval) {
  return {initial, {.growth = 2, .backoff = 0.5F, .interval = interval}};
}

Tensor gradients(float last) {
  const float values[] = {1024, -2048, last};
  return Tensor::from(std::span<const float>(values), {3});
}

TEST(LossScaler, ScalesSeedsAndUnscalesGradients) {
  const LossScaler scaler(Device::cpu(), settings(1024, 3));
  EXPECT_EQ(scaler.seed(5).item(), 5 * 1024);
  const Tensor g = gradients(512);
  scaler.unscale(g);
  EXPECT_EQ(g.data<float>()[0], 1);
  EXPECT_EQ(g.data<float>()[2], 0.5F);
  EXPECT_EQ(*scaler.skip(), 0);
}

TEST(LossScaler, BacksOffOnOverflowAndGrowsAfterGoodSteps) {
  const LossScaler scaler(Device::cpu(), settings(1024, 3));
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    const double before = scaler.scale();
    scaler.unscale(gradients(bad));
    EXPECT_NE(*scaler.skip(), 0);
    scaler.adjust();
    EXPECT_EQ(*scaler.skip(), 0);  // of the next step
    EXPECT_EQ(scaler.scale(), before / 2);
  }
  for (int step = 0; step < 3; ++step) {
    EXPECT_EQ(scaler.good_steps(), step);
    scaler.unscale(gradients(1));
    scaler.adjust();
  }
  EXPECT_EQ(scaler.scale(), 512);
  EXPECT_EQ(scaler.good_steps(), 0);
  scaler.restore(64, 2);
  EXPECT_EQ(scaler.scale(), 64);
  EXPECT_EQ(scaler.good_steps(), 2);
}

TEST(LossScaler, RejectsInvalidSettings) {
  EXPECT_THROW(LossScaler(Device::cpu(), settings(0, 3)), Error);
  EXPECT_THROW(LossScaler(Device::cpu(), settings(1, 0)), Error);
}

// Each has other results if it sees a scaled gradient.
struct OwnNormHook final : NormHook {
  std::string name() const override { return "OwnNormHook"; }
  void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms>, double all,
              std::int64_t) const override {
    for (GradientFactors& each : factors) each = {std::min(1.0, 0.75 / all), 0.125};
  }
};
struct OwnArrayHook final : ArrayHook {
  std::string name() const override { return "OwnArrayHook"; }
  void apply(const GradientArrays& arrays) override {
    for (const ParameterArena::Entry& entry : arrays.arena.entries()) {
      const Tensor part = ParameterArena::part(arrays.gradients, entry);
      for (float& g : part.span<float>()) g += 0.01F;
    }
  }
};

// A power of two scales and unscales without a trace, and a step that overflows changes nothing.
TEST(LossScaler, DoesNotChangeUpdates) {
  const auto train = [](bool scaled, float overflow_in_step_2) {
    Linear model(2, 2);
    model.initialize(1);
    const auto optimizer = create_optimizer("momentum_sgd");
    optimizer->add_hook(std::make_shared<OwnNormHook>());
    optimizer->add_hook(std::make_shared<OwnArrayHook>());
    optimizer->add_hook(gradient_clipping(0.5));
    optimizer->setup(model);
    if (scaled) optimizer->guard().scale_losses(settings(65536, 2000));
    for (int number = 0; number < 4; ++number) {
      const float values[] = {1, 2, 3, number == 2 ? overflow_in_step_2 : 4};
      const std::int32_t labels[] = {0, 1};
      const auto loss = [&] {
        const Variable x(Tensor::from(std::span<const float>(values), {2, 2}));
        return F::softmax_cross_entropy(model.forward(x),
                                        Tensor::from(std::span<const std::int32_t>(labels), {2}));
      };
      const Tensor before = optimizer->arena().values().clone();
      optimizer->update(loss, 2);
      if (number != 2 || overflow_in_step_2 == 4) continue;
      const auto now = optimizer->arena().values().span<float>();
      EXPECT_TRUE(std::ranges::equal(before.span<float>(), now));
      EXPECT_EQ(optimizer->guard().loss_scaler()->scale(), 32768);
    }
    return optimizer->arena().values().clone();
  };
  const Tensor plain = train(false, 4), scaled = train(true, 4);
  EXPECT_TRUE(std::ranges::equal(plain.span<float>(), scaled.span<float>()));
  train(true, std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace tasuki
