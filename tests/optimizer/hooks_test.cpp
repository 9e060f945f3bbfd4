// Hooks change the mean gradient before the rule sees it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"

namespace tasuki {
namespace {

using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

// Two parameters; what SGD with lr 1 subtracts is the gradient that the hooks left.
class Hooks : public ::testing::Test {
 protected:
  Hooks() {
    sgd_->set("lr", 1);
    model_[0].value().copy_from(vector_of(w0_));
    model_[1].value().copy_from(vector_of(w1_));
    sgd_->setup(model_);
  }

  // The mean gradient is `g0_`, `g1_`: a sum over 8 examples of which this process has 2.
  void expect_gradient(const std::vector<double>& of_0, const std::vector<double>& of_1) {
    const auto four_times = [](std::vector<float> g) {
      for (float& value : g) value *= 4;
      return vector_of(g);
    };
    testing::update_of_part(
        *sgd_,
        [&] {
          return loss_with_gradients(
              {{&model_[0], four_times(g0_)}, {&model_[1], four_times(g1_)}});
        },
        2, 8);
    expect_difference(w0_, values_of(model_[0].value()), of_0);
    expect_difference(w1_, values_of(model_[1].value()), of_1);
  }

  static double norm(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
  }

  const std::vector<float> w0_ = {1, -2, 2}, w1_ = {0.003f, 0.004f};
  const std::vector<float> g0_ = {3, 0, 4}, g1_ = {0, 12};
  Vectors model_{{3, 2}};
  std::unique_ptr<Optimizer> sgd_ = create_optimizer("sgd");

 private:
  static void expect_difference(const std::vector<float>& before, const std::vector<float>& after,
                                const std::vector<double>& expected) {
    ASSERT_EQ(before.size(), expected.size());
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_NEAR(double{before[i]} - double{after[i]}, expected[i], 2e-6) << "element " << i;
  }
};

TEST_F(Hooks, LeaveGradientsAloneWithoutHooks) {
  expect_gradient({3, 0, 4}, {0, 12});
}

TEST_F(Hooks, WeightDecay) {
  sgd_->add_hook(weight_decay(0.5));
  expect_gradient({3.5, -1, 5}, {0.0015, 12.002});
}

TEST_F(Hooks, WeightDecayTwiceAddsUp) {
  sgd_->add_hook(weight_decay(0.25));
  sgd_->add_hook(weight_decay(0.25));
  expect_gradient({3.5, -1, 5}, {0.0015, 12.002});
}

TEST_F(Hooks, ClippingScalesToTheThreshold) {
  sgd_->add_hook(gradient_clipping(1.3));  // |g| = 13
  expect_gradient({0.3, 0, 0.4}, {0, 1.2});
}

TEST_F(Hooks, ClippingKeepsShortGradients) {
  sgd_->add_hook(gradient_clipping(13.5));
  expect_gradient({3, 0, 4}, {0, 12});
}

TEST_F(Hooks, ClippingIncludesEarlierDecay) {
  sgd_->add_hook(weight_decay(0.5));
  sgd_->add_hook(gradient_clipping(1));
  const double length = norm({3.5, -1, 5, 0.0015, 12.002});
  expect_gradient({3.5 / length, -1 / length, 5 / length}, {0.0015 / length, 12.002 / length});
}

TEST_F(Hooks, DecayAfterClippingIsNotClipped) {
  sgd_->add_hook(gradient_clipping(1.3));
  sgd_->add_hook(weight_decay(0.5));
  expect_gradient({0.8, -1, 1.4}, {0.0015, 1.202});
}

TEST_F(Hooks, LarsScalesEachParameterByItsOwnNorms) {
  sgd_->add_hook(gradient_lars(0.01, 0.5));
  // |w0| = 3, |g0| = 5; |w1| = 0.005 is below the threshold: decay, but no scaling.
  const double rate = 3 / (5 + 0.5 * 3);
  expect_gradient({3.5 * rate, -1 * rate, 5 * rate}, {0.0015, 12.002});
}

TEST_F(Hooks, LarsAfterDecay) {
  sgd_->add_hook(weight_decay(0.5));
  sgd_->add_hook(gradient_lars(0));
  const double rate_0 = 3 / norm({3.5, -1, 5}), rate_1 = 0.005 / norm({0.0015, 12.002});
  expect_gradient({3.5 * rate_0, -1 * rate_0, 5 * rate_0}, {0.0015 * rate_1, 12.002 * rate_1});
}

TEST_F(Hooks, OwnHooksCanChangeTheArena) {
  struct SetToOne final : ArrayHook {
    std::string name() const override { return "SetToOne"; }
    void apply(const GradientArrays& arrays) override {
      for (const ParameterArena::Entry& entry : arrays.arena.entries())
        ParameterArena::part(arrays.gradients, entry).fill(1);
    }
  };
  sgd_->add_hook(weight_decay(0.5));
  sgd_->add_hook(std::make_shared<SetToOne>());
  expect_gradient({1, 1, 1}, {1, 1});
}

// g + 1.
struct AddOne final : ArrayHook {
  std::string name() const override { return "AddOne"; }
  void apply(const GradientArrays& arrays) override {
    for (const ParameterArena::Entry& entry : arrays.arena.entries()) {
      const Tensor part = ParameterArena::part(arrays.gradients, entry);
      for (float& g : part.span<float>()) ++g;
    }
  }
};

// g / 2.
struct Halve final : NormHook {
  std::string name() const override { return "Halve"; }
  void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms>, double,
              std::int64_t) const override {
    for (GradientFactors& each : factors) each.scale = 0.5;
  }
};

// The length of the gradient is 13.
TEST_F(Hooks, ArrayHooksSeeDeferredScale) {
  sgd_->add_hook(gradient_clipping(6.5));
  sgd_->add_hook(std::make_shared<AddOne>());
  expect_gradient({2.5, 1, 3}, {1, 7});
}

TEST_F(Hooks, ArrayHooksSeeScaleAfterEarlierWrites) {
  sgd_->add_hook(weight_decay(0));
  sgd_->add_hook(gradient_clipping(6.5));
  sgd_->add_hook(std::make_shared<AddOne>());
  expect_gradient({2.5, 1, 3}, {1, 7});
}

TEST_F(Hooks, ArrayHooksSeeScaleBetweenThem) {
  sgd_->add_hook(std::make_shared<AddOne>());
  sgd_->add_hook(gradient_clipping(norm({4, 1, 5, 1, 13}) / 2));
  sgd_->add_hook(std::make_shared<AddOne>());
  expect_gradient({3, 1.5, 3.5}, {1.5, 7.5});
}

TEST_F(Hooks, ArrayHooksSeeScaleOfANormHook) {
  sgd_->add_hook(weight_decay(0));
  sgd_->add_hook(std::make_shared<Halve>());
  sgd_->add_hook(std::make_shared<AddOne>());
  expect_gradient({2.5, 1, 3}, {1, 7});
}

TEST_F(Hooks, OwnFactorHooksDistinguishParameters) {
  // Half of b's gradient, and a decay that grows with the updates.
  struct OfB final : FactorHook {
    std::string name() const override { return "OfB"; }
    void adjust(GradientFactors& factors, const ParameterInfo& parameter,
                std::int64_t t) const override {
      if (parameter.path != "b") return;
      factors.scale *= 0.5;
      factors.decay = static_cast<double>(t) + 0.5 * factors.decay;
    }
  };
  sgd_->add_hook(weight_decay(2));
  sgd_->add_hook(std::make_shared<OfB>());
  sgd_->set_t(1);
  expect_gradient({5, -4, 8}, {0.003 * 3, 6 + 0.004 * 3});
}

// Chainer's clipping, as a program would write it.
struct OwnClipping final : NormHook {
  std::string name() const override { return "OwnClipping"; }
  void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms>, double all,
              std::int64_t) const override {
    for (GradientFactors& each : factors) each.scale = std::min(1.0, 1.3 / all);
  }
};

TEST_F(Hooks, OwnNormHooksSeeTheGlobalNorm) {
  sgd_->add_hook(std::make_shared<OwnClipping>());
  sgd_->add_hook(weight_decay(0.5));
  expect_gradient({0.8, -1, 1.4}, {0.0015, 1.202});
}

TEST_F(Hooks, OwnNormHooksSeeEarlierDecay) {
  sgd_->add_hook(weight_decay(0.5));
  sgd_->add_hook(std::make_shared<OwnClipping>());
  const double r = 1.3 / norm({3.5, -1, 5, 0.0015, 12.002});
  expect_gradient({3.5 * r, -1 * r, 5 * r}, {0.0015 * r, 12.002 * r});
}

TEST_F(Hooks, OwnNormHooksCanScaleEachParameter) {
  struct OwnLars final : NormHook {
    std::string name() const override { return "OwnLars"; }
    void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms> norms, double,
                std::int64_t) const override {
      for (std::size_t i = 0; i < norms.size(); ++i) {
        const auto& [info, w, g] = norms[i];
        const double rate = w > 0.01 ? w / (g + 0.5 * w) : 1;
        factors[i] = {rate, 0.5 * rate};
      }
    }
  };
  sgd_->add_hook(std::make_shared<OwnLars>());
  const double rate = 3 / (5 + 0.5 * 3);
  expect_gradient({3.5 * rate, -1 * rate, 5 * rate}, {0.0015, 12.002});
}

TEST(HookSettings, AreChecked) {
  for (const double bad : {-1.0, std::nan("")}) {
    EXPECT_THROW(weight_decay(bad), Error);
    EXPECT_THROW(gradient_clipping(bad), Error);
    EXPECT_THROW(gradient_lars(bad), Error);
    EXPECT_THROW(gradient_lars(0.01, bad), Error);
    EXPECT_THROW(gradient_lars(0.01, 0, bad), Error);
  }
  EXPECT_THROW(gradient_clipping(0), Error);
  EXPECT_NO_THROW(weight_decay(0));
}

}  // namespace
}  // namespace tasuki
