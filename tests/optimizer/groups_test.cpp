// Parameter groups: settings of some parameters that differ from the optimizer's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"

namespace tasuki {
namespace {

using testing::coded_error_of;
using ::testing::HasSubstr;
using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

TEST(Patterns, MatchPaths) {
  for (const auto& [pattern, path] :
       std::vector<std::pair<std::string, std::string>>{{"l1/W", "l1/W"},
                                                        {"l1/*", "l1/W"},
                                                        {"*/W", "l1/W"},
                                                        {"l*1*/*", "l21x/b"},
                                                        {"**", "a/b/c"},
                                                        {"**/W", "a/b/W"},
                                                        {"a/**", "a/b/c"},
                                                        {"a/**/c", "a/b/b/c"},
                                                        {"*", "W"},
                                                        {"**", "W"},
                                                        {"a*", "a"},
                                                        {"", ""}})
    EXPECT_TRUE(matches(pattern, path)) << pattern << " " << path;
  for (const auto& [pattern, path] :
       std::vector<std::pair<std::string, std::string>>{{"l1/W", "l1/b"},
                                                        {"l1", "l1/W"},
                                                        {"*", "l1/W"},
                                                        {"*/W", "a/l1/W"},
                                                        {"**/W", "W"},
                                                        {"a/**", "b/a/c"},
                                                        {"l1/W", "l1/W2"},
                                                        {"", "W"}})
    EXPECT_FALSE(matches(pattern, path)) << pattern << " " << path;
}

// Parameters by path and shape, in modules.
class Tree : public Module {
 public:
  explicit Tree(const nlohmann::json& shapes) {
    for (const auto& [path, axes] : shapes.items()) {
      const std::size_t end = path.find('/');
      const std::string layer = path.substr(0, end);
      if (!layers_.contains(layer)) add(layer, layers_[layer]);
      std::vector<std::int64_t> sizes = axes;
      parameters_[path] = &layers_[layer].add_parameter(path.substr(end + 1), Shape(sizes), zeros);
    }
    initialize(0);
  }
  Parameter& operator[](const std::string& path) const { return *parameters_.at(path); }

 private:
  struct Layer : Module {
    using Module::add_parameter;
  };
  static void zeros(const Tensor& value, std::uint64_t, std::uint64_t) { value.fill(0); }
  std::map<std::string, Layer> layers_;
  std::map<std::string, Parameter*> parameters_;
};

TEST(GroupsAgainstTorch, MatchWeightsAfterEachUpdate) {
  const auto torch = testing::json_in(TORCH_GROUPS);
  ASSERT_GE(torch["cases"].size(), 6U);
  for (const auto& expected : torch["cases"]) {
    Tree model(torch["shapes"]);
    for (const auto& [path, values] : torch["initial"].items()) {
      const Tensor& value = model[path].value();
      value.copy_from(vector_of(values).reshape(value.shape()));
    }
    const auto optimizer = create_optimizer(expected["optimizer"]);
    for (const auto& [name, value] : expected["hyperparameters"].items())
      optimizer->set(name, value);
    optimizer->setup(model);
    if (optimizer->rule().decay_name().empty())
      optimizer->add_hook(weight_decay(expected["weight_decay"]));
    for (const auto& each : expected["groups"]) {
      Optimizer::Group group{.pattern = each["pattern"]};
      if (each.contains("rate_factor")) group.rate_factor = each["rate_factor"];
      group.values = each.value("values", std::map<std::string, double>());
      if (each.contains("weight_decay")) group.weight_decay = each["weight_decay"];
      group.is_1d_only = each.value("is_1d_only", false);
      optimizer->add_group(group);
    }
    for (std::size_t t = 0; t < torch["gradients"].size(); ++t) {
      optimizer->update(
          [&] {
            testing::Prescribed gradients;
            for (const auto& [path, values] : torch["gradients"][t].items())
              gradients.emplace_back(&model[path], vector_of(values).reshape(model[path].shape()));
            return loss_with_gradients(gradients);
          },
          1);
      for (const auto& [path, values] : expected["weights"][t].items()) {
        const auto weights = values.get<std::vector<double>>();
        const Tensor& value = model[path].value();
        const std::vector<float> found = values_of(value.reshape({value.count()}));
        for (std::size_t i = 0; i < weights.size(); ++i)
          ASSERT_NEAR(found[i], weights[i], 1e-5 * std::max(1.0, std::abs(weights[i])))
              << optimizer->rule().name() << ", update " << t + 1 << ", " << path << " " << i;
      }
    }
  }
}

// Two parameters of one element, 1, with gradients of 1: what remains of them after one update.
class Groups : public ::testing::Test {
 protected:
  std::vector<float> after_update() {
    for (std::size_t i = 0; i < 2; ++i) model_[i].value().fill(1);
    optimizer_->update(
        [&] {
          return loss_with_gradients({{&model_[0], vector_of({1})}, {&model_[1], vector_of({1})}});
        },
        1);
    return {values_of(model_[0].value())[0], values_of(model_[1].value())[0]};
  }

  Vectors model_{{1, 1}};
  std::unique_ptr<Optimizer> optimizer_ = [this] {
    auto made = create_optimizer("sgd");
    made->set("lr", 0.25);
    made->setup(model_);
    return made;
  }();
};

TEST_F(Groups, UseTheOptimizersRateUnlessTheyHaveTheirOwn) {
  optimizer_->add_group({.pattern = "a", .rate_factor = 2});
  EXPECT_EQ(after_update(), (std::vector<float>{0.5F, 0.75F}));
  optimizer_->set("lr", 0.125);
  EXPECT_EQ(after_update(), (std::vector<float>{0.75F, 0.875F}));
  optimizer_->add_group({.pattern = "a", .rate_factor = 2, .values = {{"lr", 0.375}}});
  EXPECT_EQ(after_update(), (std::vector<float>{0.25F, 0.875F}));
}

TEST_F(Groups, TakeEachSettingFromTheLastMatchingGroup) {
  optimizer_->add_hook(weight_decay(1));
  optimizer_->add_group({.pattern = "a", .rate_factor = 2});
  optimizer_->add_group({.pattern = "**", .weight_decay = 0});
  EXPECT_EQ(after_update(), (std::vector<float>{0.5F, 0.75F}));
  optimizer_->add_group({.pattern = "a", .values = {{"lr", 0.125}}});
  EXPECT_EQ(after_update(), (std::vector<float>{0.75F, 0.75F}));
  optimizer_->add_group({.pattern = "a", .rate_factor = 1, .weight_decay = 1});
  EXPECT_EQ(after_update(), (std::vector<float>{0.75F, 0.75F}));
}

TEST_F(Groups, FailTheUpdateIfNothingMatched) {
  optimizer_->add_group({.pattern = "c", .rate_factor = 2});
  EXPECT_THAT(coded_error_of([&] { after_update(); }),
              HasSubstr("group c matches no parameter of the model, which has, for example, "));
}

TEST_F(Groups, ReplaceTheDecayOfLars) {
  optimizer_->add_hook(gradient_lars(2, 0.5));  // above the weights' norms: decay alone
  optimizer_->add_group({.pattern = "b", .weight_decay = 0});
  EXPECT_EQ(after_update(), (std::vector<float>{1 - 0.25F * 1.5F, 0.75F}));
}

TEST_F(Groups, ApplyToLayersAddedLater) {
  optimizer_->add_group({.pattern = "**/a", .rate_factor = 2});
  Vectors grown{{1}};
  grown[0].value().fill(1);
  model_.add("grown", grown);
  const auto loss = [&] { return loss_with_gradients({{&grown[0], vector_of({1})}}); };
  optimizer_->update(loss, 1);
  EXPECT_EQ(values_of(grown[0].value())[0], 0.5F);
}

TEST_F(Groups, AreValidatedWhenAdded) {
  const auto error = [&](const Optimizer::Group& group) {
    return coded_error_of([&] { optimizer_->add_group(group); });
  };
  EXPECT_THAT(error({.pattern = "a", .values = {{"momentum", 0.5}}}),
              HasSubstr("SGD has no hyper-parameter \"momentum\"; it has lr"));
  EXPECT_THAT(error({.pattern = "a", .values = {{"lr", -1.0}}}), HasSubstr("out of range"));
  EXPECT_THAT(error({.pattern = "a", .rate_factor = -1}), HasSubstr("group a: rate_factor = -1"));
  EXPECT_THAT(error({.pattern = "a", .weight_decay = -1}), HasSubstr("weight_decay = -1"));
  EXPECT_TRUE(optimizer_->groups().empty());
  EXPECT_THAT(coded_error_of([] {
                create_optimizer("adadelta")->add_group({.pattern = "a", .rate_factor = 2});
              }),
              HasSubstr("AdaDelta has no learning rate to multiply"));
}

TEST_F(Groups, RejectDecayWithoutADecayingRuleOrHook) {
  optimizer_->add_group({.pattern = "a", .weight_decay = 0.5});
  EXPECT_THAT(coded_error_of([&] { after_update(); }), HasSubstr("add_hook(weight_decay(0))"));
  optimizer_->add_hook(weight_decay(0));
  EXPECT_EQ(after_update(), (std::vector<float>{1 - 0.25F * 1.5F, 0.75F}));
}

}  // namespace
}  // namespace tasuki
