// Rules that a program brings along: the same numbers as a built-in rule with the same formula.
#include "own_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>

#include "core/philox.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

using ::testing::HasSubstr;
using testing::loss_with_gradients;
using testing::OwnLars;
using testing::OwnMomentum;
using testing::values_of;
using testing::Vectors;

const RuleRegistration<OwnMomentum> momentum{"own_momentum"};
const RuleRegistration<OwnLars> lars{"own_lars"};

// Short parameters, one that several threads share, and lengths that are not a multiple of
// anything.
constexpr std::int64_t sizes[] = {1, 15, 100003, 17, 70001, 2};

struct Training {
  explicit Training(std::unique_ptr<Optimizer> made) : optimizer(std::move(made)) {
    RandomStream random(1);
    for (std::size_t i = 0; i < std::size(sizes); ++i)
      for (float& value : model[i].value().span<float>()) value = random.normal();
  }
  // Weights after some steps with gradients that are drawn anew in each.
  std::vector<std::vector<float>> after(int steps) {
    optimizer->setup(model);
    for (int step = 0; step < steps; ++step)
      optimizer->update(
          [&] {
            RandomStream random(2, static_cast<std::uint64_t>(step));
            testing::Prescribed gradients;
            for (std::size_t i = 0; i < std::size(sizes); ++i) {
              const Tensor gradient = Tensor::empty({sizes[i]});
              for (float& value : gradient.span<float>()) value = random.normal();
              gradients.emplace_back(&model[i], gradient);
            }
            return loss_with_gradients(gradients);
          },
          3);
    std::vector<std::vector<float>> weights;
    for (std::size_t i = 0; i < std::size(sizes); ++i)
      weights.push_back(values_of(model[i].value()));
    return weights;
  }

  Vectors model{{std::begin(sizes), std::end(sizes)}};
  std::unique_ptr<Optimizer> optimizer;
};

class WithThreads {
 public:
  explicit WithThreads(int threads) : before_(cpu_threads()) { set_cpu_threads(threads); }
  ~WithThreads() { set_cpu_threads(before_); }

 private:
  int before_;
};

TEST(OwnRules, AreBitIdenticalToBuiltInRules) {
  Training expected(create_optimizer("momentum_sgd"));
  const auto weights = expected.after(5);
  for (const int threads : {1, 2, 3}) {
    SCOPED_TRACE(threads);
    const WithThreads with(threads);
    Training own(create_optimizer("own_momentum"));
    EXPECT_EQ(own.after(5), weights);
    for (std::size_t i = 0; i < std::size(sizes); ++i)
      EXPECT_EQ(values_of(own.optimizer->states().of(own.model[i], "v")),
                values_of(expected.optimizer->states().of(expected.model[i], "v")));
  }
}

TEST(OwnRules, SeeHooksAndGroupsLikeBuiltInRules) {
  const auto train = [](const std::string& key) {
    Training made(create_optimizer(key));
    made.optimizer->set("momentum", 0.5);
    made.optimizer->add_hook(weight_decay(0.1));
    made.optimizer->add_hook(gradient_clipping(2));
    made.optimizer->add_hook(weight_decay(0.2));
    made.optimizer->add_group({.pattern = "b", .rate_factor = 3, .values = {{"momentum", 0.7}}});
    made.optimizer->add_group({.pattern = "e", .weight_decay = 0});
    return made.after(4);
  };
  EXPECT_EQ(train("own_momentum"), train("momentum_sgd"));
}

// Built on a built-in rule: half of its rate.
class HalfOf : public UpdateRule {
 public:
  explicit HalfOf(const char* key)
      : rule_(std::ranges::find(update_rules(), key, &NamedRule::key)->rule) {}
  std::string name() const override { return "Half" + rule_->name(); }
  std::vector<Hyperparameter> hyperparameters() const override { return rule_->hyperparameters(); }
  std::vector<std::string> states() const override { return rule_->states(); }
  std::string rate_name() const override { return rule_->rate_name(); }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t t) const override {
    std::vector<double> made = rule_->factors(h, t);
    made[0] /= 2;
    return made;
  }
  void apply(const RuleRange& range) const override { rule_->apply(range); }

 private:
  std::shared_ptr<const UpdateRule> rule_;
};

TEST(OwnRules, CanDeriveFromABuiltInRule) {
  Training half(std::make_unique<Optimizer>(std::make_shared<HalfOf>("adam")));
  Training adam(create_optimizer("adam"));
  adam.optimizer->set("alpha", adam.optimizer->get("alpha") / 2);
  EXPECT_EQ(half.after(3), adam.after(3));
}

TEST(OwnRules, CannotDeriveFromLamb) {
  Training half(std::make_unique<Optimizer>(std::make_shared<HalfOf>("lamb")));
  EXPECT_EQ(testing::coded_error_of([&] { half.after(1); }),
            "64: an update of LAMB depends on whole parameters; a rule cannot be built on it");
}

TEST(OwnRules, SeeGradientNormsAfterHooks) {
  Training own(create_optimizer("own_lars")), expected(create_optimizer("sgd"));
  for (Training* each : {&own, &expected}) each->optimizer->add_hook(weight_decay(0.3));
  expected.optimizer->add_hook(gradient_lars(0));
  const auto found = own.after(3), weights = expected.after(3);
  for (std::size_t i = 0; i < weights.size(); ++i)
    for (std::size_t j = 0; j < weights[i].size(); ++j)
      ASSERT_NEAR(found[i][j], weights[i][j], 1e-5 * std::max(1.0F, std::abs(weights[i][j])));
}

TEST(OwnRules, GiveTheSameNormsForAnyNumberOfThreads) {
  const auto train = [](int threads) {
    const WithThreads with(threads);
    Training made(create_optimizer("own_lars"));
    made.optimizer->add_hook(weight_decay(0.3));
    return made.after(2);
  };
  const auto expected = train(1);
  EXPECT_EQ(train(2), expected);
  EXPECT_EQ(train(3), expected);
}

TEST(OwnRules, AreIdentifiedByTheirKeys) {
  EXPECT_THAT(optimizer_names(), ::testing::Contains("own_momentum"));
  EXPECT_EQ(create_optimizer("own_momentum")->rule().name(), "OwnMomentum");
  EXPECT_THAT(testing::coded_error_of([] { create_optimizer("own"); }), HasSubstr("own_momentum"));
  EXPECT_THAT(testing::coded_error_of([] { RuleRegistration<OwnMomentum>{"other"}; }),
              HasSubstr("an optimizer own_momentum (OwnMomentum) is registered already"));
  EXPECT_THAT(
      testing::coded_error_of([] { register_rule("adam", std::make_shared<HalfOf>("adam")); }),
      HasSubstr("an optimizer adam (Adam) is registered already"));
}

TEST(OwnRules, CanThrowInAnyThread) {
  struct Failing : OwnMomentum {
    void apply(const RuleRange& range) const override {
      if (range.info.path == "e") fail(ErrorKind::data, "no update of {}", range.info.path);
    }
  };
  const WithThreads with(3);
  Training made(std::make_unique<Optimizer>(std::make_shared<Failing>()));
  EXPECT_THAT(testing::coded_error_of([&] { made.after(1); }), HasSubstr("no update of e"));
}

TEST(OwnRules, CanHaveEightFactors) {
  struct Many : OwnMomentum {
    std::vector<double> factors(const Hyperparameters&, std::int64_t) const override {
      return std::vector<double>(9, 1);
    }
  };
  Training made(std::make_unique<Optimizer>(std::make_shared<Many>()));
  EXPECT_THAT(testing::coded_error_of([&] { made.after(1); }),
              HasSubstr("OwnMomentum has 9 factors of an update; there is room for 8"));
}

}  // namespace
}  // namespace tasuki
