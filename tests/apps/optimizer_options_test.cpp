// Flags of optimizers and of what they do to gradients, which all training programs share.
#include <gtest/gtest.h>

#include <fstream>

#include "core/json.hpp"
#include "models/mlp.hpp"
#include "nn/classifier.hpp"
#include "program/start/optimizer.hpp"
#include "tests/optimizer/prescribed.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"
#include "training_flags_program.hpp"

namespace tasuki::program {
namespace {

using testing::Program;
using testing::usage_error_of;

TEST(OptimizerFlags, Momentum) {
  Program program;
  program.parse({"--optimizer", "nesterov", "--momentum", "0.5"});
  EXPECT_EQ(create_optimizer(program.options, program.settings, 1)->get("momentum"), 0.5);
  program.parse({"--optimizer", "adam"});
  EXPECT_NE(usage_error_of([&] {
              create_optimizer(program.options, program.settings, 1);
            }).find("Adam has none"),
            std::string::npos);
}

// Weights after each update, and the rate that the log has then.
TEST(OptimizerFlags, MatchChainer) {
  const auto chainer = testing::json_in(CHAINER_UPDATES);
  const auto initial = chainer["initial"].get<std::vector<float>>();
  const auto gradients = chainer["gradients"].get<std::vector<std::vector<float>>>();
  ASSERT_EQ(chainer["cases"].size(), optimizer_names().size() - 1);  // Chainer has no LAMB
  for (const auto& expected : chainer["cases"]) {
    SCOPED_TRACE(json_text(expected["flags"]));
    Program program;
    program.parse(expected["flags"]);
    const auto optimizer = create_optimizer(program.options, program.settings, 1);
    testing::Vectors model({static_cast<std::int64_t>(initial.size())});
    model[0].value().copy_from(testing::vector_of(initial));
    optimizer->setup(model);
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      const testing::Prescribed gradient = {{&model[0], testing::vector_of(gradients[t])}};
      optimizer->update([&] { return testing::loss_with_gradients(gradient); }, 1);
      const auto weights = expected["weights"][t].get<std::vector<double>>();
      const std::vector<float> found = testing::values_of(model[0].value());
      for (std::size_t i = 0; i < weights.size(); ++i)
        EXPECT_NEAR(found[i], weights[i], 2e-6) << "update " << t + 1 << ", element " << i;
      const double none = -1;
      const auto& rate = expected["rates"][t];
      EXPECT_DOUBLE_EQ(optimizer->learning_rate().value_or(none),
                       rate.is_null() ? none : rate.get<double>());
    }
  }
}

// One step without any gradient but the decay's: every parameter, biases too, shrinks. Adam's first
// step is as long as its rate, whatever the gradient.
TEST(OptimizerFlags, ApplyWeightDecayToAllParameters) {
  for (const auto& [name, expected] : std::vector<std::pair<std::string, double>>{
           {"sgd", 1 - 0.5 * 0.1}, {"adamw", 1 - 0.1}, {"adam", 1 - 0.5}}) {
    Program program;
    program.parse({"--optimizer", name, "--lr", "0.5", "--weight-decay", "0.1"});
    Classifier model(std::make_unique<MLP>(2, 3, 2));
    const auto optimizer = create_optimizer(program.options, program.settings, 1);
    for (const auto& named : model.parameters()) named.parameter->value().fill(1);
    optimizer->setup(model);
    const auto loss = [&] {  // labels that do not count: no gradient
      return model(Variable(Tensor::zeros({1, 2})), Tensor::full({1}, -1, DType::int32)).loss;
    };
    optimizer->update(loss, 1);
    for (const auto& [path, parameter] : model.parameters())
      for (const float value : parameter->value().span<float>())
        EXPECT_NEAR(value, expected, 1e-5) << name << ' ' << path;
  }
}

// The gradient of a model with the parameters (3, 4) and 0, after the flags' hooks: as long a step
// of SGD with rate 1 is.
std::vector<float> step_of(const std::vector<std::string>& flags, const std::vector<float>& first,
                           const std::vector<float>& second) {
  Program program;
  program.parse(flags);
  const auto optimizer = create_optimizer(program.options, program.settings, 1);
  optimizer->set("lr", 1);
  testing::Vectors model({2, 1});
  model[0].value().copy_from(testing::vector_of({3, 4}));
  model[1].value().copy_from(testing::vector_of({0}));
  optimizer->setup(model);
  const testing::Prescribed gradients = {{&model[0], testing::vector_of(first)},
                                         {&model[1], testing::vector_of(second)}};
  optimizer->update([&] { return testing::loss_with_gradients(gradients); }, 1);
  const auto left = testing::values_of(model[0].value());
  return {3 - left[0], 4 - left[1], -testing::values_of(model[1].value())[0]};
}

void expect_step(const std::vector<std::string>& flags, const std::vector<float>& expected) {
  std::vector<std::string> words = {"--optimizer", "sgd"};
  words.insert(words.end(), flags.begin(), flags.end());
  const auto found = step_of(words, {6, 0}, {8});
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], 1e-5) << flags[0] << ", element " << i;
}

// The gradient (6, 0), (8) is 10 long, its first part 6; the first parameter is 5 long.
TEST(OptimizerFlags, ClipNormAndLarsMatchTheirHelp) {
  expect_step({"--clip-norm", "5"}, {3, 0, 4});
  expect_step({"--clip-norm", "11"}, {6, 0, 8});
  // The gradient of the loss is clipped, and what decay adds is not.
  expect_step({"--clip-norm", "5", "--weight-decay", "0.5"}, {3 + 1.5F, 2, 4});
  // A parameter that is not longer than 0.01 keeps its gradient.
  expect_step({"--lars"}, {5, 0, 8});
  const float ratio = 5 / (6 + 0.5F * 5);
  expect_step({"--lars", "--weight-decay", "0.5"}, {(6 + 1.5F) * ratio, 2 * ratio, 8});
  expect_step({"--lars", "--clip-norm", "5"}, {5, 0, 4});
}

TEST(OptimizerFlags, NoDecay1dExcludesOneDimensionalParameters) {
  expect_step({"--weight-decay", "0.5"}, {6 + 1.5F, 2, 8});
  expect_step({"--weight-decay", "0.5", "--no-decay-1d"}, {6, 0, 8});
  expect_step({"--weight-decay", "0.5", "--no-decay-1d", "--lars"}, {5, 0, 8});
  for (const std::string name : {"adamw", "sgd"}) {
    Program program;
    program.parse({"--optimizer", name, "--weight-decay", "0.5", "--no-decay-1d"});
    const auto optimizer = create_optimizer(program.options, program.settings, 1);
    ASSERT_EQ(optimizer->groups().size(), 1U);
    EXPECT_TRUE(optimizer->groups()[0].has("l1/b", Shape{3}));
    EXPECT_FALSE(optimizer->groups()[0].has("l1/W", Shape{3, 2}));
  }
}

TEST(OptimizerFlags, DescribeHooks) {
  const auto text_of = [](const std::vector<std::string>& flags) {
    Program program;
    program.parse(flags);
    return describe_hooks(*create_optimizer(program.options, program.settings, 1),
                          program.settings);
  };
  EXPECT_EQ(text_of({}), "");
  EXPECT_EQ(text_of({"--weight-decay", "0.5", "--clip-norm", "2", "--lars"}),
            ", clip_norm 2, LARS, weight_decay 0.5");
  EXPECT_EQ(text_of({"--optimizer", "adamw", "--weight-decay", "0.5"}), "");
  EXPECT_EQ(text_of({"--weight-decay", "0.5", "--no-decay-1d"}),
            ", weight_decay 0.5, no decay of parameters with one axis");
}

}  // namespace
}  // namespace tasuki::program
