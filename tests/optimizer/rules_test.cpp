// Every rule against formulae written down once more, in double and one number at a time, and
// against PyTorch where it has the same formula (LAMB: timm).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <span>

#include "core/philox.hpp"
#include "optimizer/optimizer.hpp"
#include "prescribed.hpp"
#include "tests/support/json.hpp"
#include "tests/support/paths.hpp"

namespace tasuki {
namespace {

using testing::loss_with_gradients;
using testing::values_of;
using testing::vector_of;
using testing::Vectors;

// One weight with two states.
struct Weight {
  double p = 0, s = 0, r = 0;
};
// Of one weight.
using Formula = std::function<void(Weight& w, double g, int t, const Optimizer& h)>;
// Of all weights of a parameter.
using Update = std::function<void(std::vector<Weight>& weights, std::span<const float> gradient,
                                  int t, const Optimizer& h)>;

Update each(const Formula& formula) {
  return [formula](std::vector<Weight>& weights, std::span<const float> gradient, int t,
                   const Optimizer& h) {
    for (std::size_t i = 0; i < weights.size(); ++i) formula(weights[i], gradient[i], t, h);
  };
}

void lamb(std::vector<Weight>& weights, std::span<const float> gradient, int t,
          const Optimizer& h) {
  const double beta1 = h.get("beta1"), beta2 = h.get("beta2");
  std::vector<double> r;
  double of_w = 0, of_r = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    auto& [p, m, v] = weights[i];
    m = beta1 * m + (1 - beta1) * gradient[i];
    v = beta2 * v + (1 - beta2) * gradient[i] * gradient[i];
    const double direction =
        m / (1 - std::pow(beta1, t)) / (std::sqrt(v / (1 - std::pow(beta2, t))) + h.get("eps"));
    r.push_back(direction + h.get("weight_decay_rate") * p);
    of_w += p * p;
    of_r += r.back() * r.back();
  }
  const double ratio = of_w > 0 && of_r > 0 ? std::pow(of_w / of_r, h.get("trust") / 2) : 1;
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i].p -= h.get("alpha") * ratio * r[i];
}

const std::map<std::string, Update>& formulae() {
  static const Formula adam = [](Weight& w, double g, int t, const Optimizer& h) {
    const double beta1 = h.get("beta1"), beta2 = h.get("beta2");
    w.s = beta1 * w.s + (1 - beta1) * g;
    w.r = beta2 * w.r + (1 - beta2) * g * g;
    const double alpha =
        h.get("alpha") * std::sqrt(1 - std::pow(beta2, t)) / (1 - std::pow(beta1, t));
    w.p -= h.get("eta") *
           (alpha * w.s / (std::sqrt(w.r) + h.get("eps")) + h.get("weight_decay_rate") * w.p);
  };
  static const std::map<std::string, Update> all = {
      {"sgd", each([](Weight& w, double g, int, const Optimizer& h) { w.p -= h.get("lr") * g; })},
      {"momentum_sgd", each([](Weight& w, double g, int, const Optimizer& h) {
         w.s = h.get("momentum") * w.s - h.get("lr") * g;
         w.p += w.s;
       })},
      {"nesterov", each([](Weight& w, double g, int, const Optimizer& h) {
         const double momentum = h.get("momentum");
         w.s = momentum * w.s - h.get("lr") * g;
         w.p += momentum * momentum * w.s;
         w.p -= (1 + momentum) * h.get("lr") * g;
       })},
      {"adam", each(adam)},
      {"adamw", each(adam)},
      {"lamb", lamb},
      {"rmsprop", each([](Weight& w, double g, int, const Optimizer& h) {
         w.s = h.get("alpha") * w.s + (1 - h.get("alpha")) * g * g;
         w.p -= h.get("lr") * g / (std::sqrt(w.s) + h.get("eps"));
       })},
      {"adagrad", each([](Weight& w, double g, int, const Optimizer& h) {
         w.s += g * g;
         w.p -= h.get("lr") * g / (std::sqrt(w.s) + h.get("eps"));
       })},
      {"adadelta", each([](Weight& w, double g, int, const Optimizer& h) {
         const double rho = h.get("rho"), eps = h.get("eps");
         w.s = rho * w.s + (1 - rho) * g * g;
         const double dx = std::sqrt((w.r + eps) / (w.s + eps)) * g;
         w.r = rho * w.r + (1 - rho) * dx * dx;
         w.p -= dx;
       })},
  };
  return all;
}

constexpr double tolerance = 1e-6;

class Rules : public ::testing::TestWithParam<std::string> {
 protected:
  // Some updates of three parameters, with the gradient given as a sum over four examples.
  void compare_with_formula(Optimizer& optimizer) {
    const Update& formula = formulae().at(GetParam());
    Vectors model({1, 37, 16});
    RandomStream random(3);
    std::vector<std::vector<Weight>> expected;
    for (std::size_t i = 0; i < 3; ++i) {
      expected.emplace_back();
      for (float& value : model[i].value().span<float>()) {
        value = random.normal();
        expected.back().push_back({value});
      }
    }
    optimizer.setup(model);
    for (int t = 1; t <= 10; ++t) {
      testing::Prescribed gradients;
      for (std::size_t i = 0; i < 3; ++i) {
        gradients.emplace_back(&model[i], Tensor::empty(model[i].shape()));
        const std::span<float> gradient = gradients.back().second.span<float>();
        for (float& g : gradient) g = random.normal();
        formula(expected[i], gradient, t, optimizer);
      }
      optimizer.update([&] { return loss_with_gradients(gradients); }, 4);
      ASSERT_EQ(optimizer.t(), t);
      for (std::size_t i = 0; i < 3; ++i) {
        const std::vector<float> found = values_of(model[i].value());
        for (std::size_t j = 0; j < found.size(); ++j)
          ASSERT_NEAR(found[j], expected[i][j].p,
                      tolerance * std::max(1.0, std::abs(expected[i][j].p)))
              << "update " << t << ", parameter " << i << ", element " << j;
      }
    }
    compare_states(optimizer, expected);
  }

 private:
  void compare_states(const Optimizer& optimizer,
                      const std::vector<std::vector<Weight>>& expected) {
    for (const std::string& name : optimizer.states().names()) {
      const bool is_first = name == optimizer.states().names().front();
      for (const ParameterArena::Entry& entry : optimizer.arena().entries()) {
        const auto& weights = expected[static_cast<std::size_t>(entry.path[0] - 'a')];
        const std::vector<float> found = values_of(optimizer.states().of(*entry.parameter, name));
        for (std::size_t j = 0; j < found.size(); ++j) {
          const double state = is_first ? weights[j].s : weights[j].r;
          EXPECT_NEAR(found[j], state, tolerance * std::max(1.0, std::abs(state)))
              << name << " of " << entry.path;
        }
      }
    }
  }
};

TEST_P(Rules, FollowTheirFormulaWithDefaults) {
  compare_with_formula(*create_optimizer(GetParam()));
}

TEST_P(Rules, FollowTheirFormulaWithOtherSettings) {
  const auto optimizer = create_optimizer(GetParam());
  const std::map<std::string, double> settings = {
      {"lr", 0.07},   {"momentum", 0.6}, {"beta1", 0.7}, {"beta2", 0.9},
      {"eps", 1e-2},  {"eta", 0.4},      {"rho", 0.8},   {"weight_decay_rate", 0.03},
      {"alpha", 0.3}, {"trust", 0.5}};
  for (const std::string& name : optimizer->hyperparameters())
    optimizer->set(name, settings.at(name));
  compare_with_formula(*optimizer);
}

TEST_P(Rules, HaveChainersStates) {
  static const std::map<std::string, std::vector<std::string>> expected = {
      {"sgd", {}},          {"momentum_sgd", {"v"}}, {"nesterov", {"v"}},
      {"adam", {"m", "v"}}, {"adamw", {"m", "v"}},   {"lamb", {"m", "v"}},
      {"rmsprop", {"ms"}},  {"adagrad", {"h"}},      {"adadelta", {"msg", "msdx"}}};
  const auto optimizer = create_optimizer(GetParam());
  const Vectors model({5});
  optimizer->setup(const_cast<Vectors&>(model));
  EXPECT_EQ(optimizer->states().names(), expected.at(GetParam()));
  for (const std::string& name : optimizer->states().names()) {
    const Tensor values = optimizer->states().of(model[0], name);
    EXPECT_EQ(values.shape(), model[0].shape());
    for (const float value : values_of(values)) EXPECT_EQ(value, 0);
  }
  EXPECT_EQ(optimizer->states().bytes(),
            static_cast<std::size_t>(optimizer->arena().update_count()) * sizeof(float) *
                optimizer->states().names().size());
  EXPECT_THROW(optimizer->states().of(model[0], "momentum"), Error);
}

INSTANTIATE_TEST_SUITE_P(Names, Rules, ::testing::ValuesIn(optimizer_names()),
                         [](const auto& info) { return info.param; });

TEST(RuleDefaults, MatchChainer) {
  const std::map<std::string, std::map<std::string, double>> expected = {
      {"sgd", {{"lr", 0.01}}},
      {"momentum_sgd", {{"lr", 0.01}, {"momentum", 0.9}}},
      {"nesterov", {{"lr", 0.01}, {"momentum", 0.9}}},
      {"adam",
       {{"alpha", 1e-3},
        {"beta1", 0.9},
        {"beta2", 0.999},
        {"eps", 1e-8},
        {"eta", 1},
        {"weight_decay_rate", 0}}},
      {"adamw",
       {{"alpha", 1e-3},
        {"beta1", 0.9},
        {"beta2", 0.999},
        {"eps", 1e-8},
        {"eta", 1},
        {"weight_decay_rate", 0}}},
      {"lamb",
       {{"alpha", 1e-3},
        {"beta1", 0.9},
        {"beta2", 0.999},
        {"eps", 1e-6},
        {"weight_decay_rate", 0},
        {"trust", 1}}},
      {"rmsprop", {{"lr", 0.01}, {"alpha", 0.99}, {"eps", 1e-8}}},
      {"adagrad", {{"lr", 1e-3}, {"eps", 1e-8}}},
      {"adadelta", {{"rho", 0.95}, {"eps", 1e-6}}},
  };
  ASSERT_EQ(optimizer_names().size(), expected.size());
  for (const std::string& name : optimizer_names()) {
    const auto optimizer = create_optimizer(name);
    std::map<std::string, double> found;
    for (const std::string& parameter : optimizer->hyperparameters())
      found[parameter] = optimizer->get(parameter);
    EXPECT_EQ(found, expected.at(name)) << name;
  }
}

TEST(RulesAgainstTorch, MatchWeightsAfterEachUpdate) {
  const auto torch = testing::json_in(TORCH_UPDATES);
  const auto initial = torch["initial"].get<std::vector<float>>();
  const auto gradients = torch["gradients"].get<std::vector<std::vector<float>>>();
  ASSERT_GE(torch["cases"].size(), 12u);
  for (const auto& expected : torch["cases"]) {
    const auto optimizer = create_optimizer(expected["optimizer"]);
    for (const auto& [name, value] : expected["hyperparameters"].items())
      optimizer->set(name, value);
    if (expected["weight_decay"] != 0.0)
      optimizer->add_hook(weight_decay(expected["weight_decay"]));
    Vectors model({static_cast<std::int64_t>(initial.size())});
    model[0].value().copy_from(vector_of(initial));
    optimizer->setup(model);
    for (std::size_t t = 0; t < gradients.size(); ++t) {
      optimizer->update(
          [&] {
            return loss_with_gradients({{&model[0], vector_of(gradients[t])}});
          },
          1);
      const auto weights = expected["weights"][t].get<std::vector<double>>();
      const std::vector<float> found = values_of(model[0].value());
      for (std::size_t i = 0; i < weights.size(); ++i)
        ASSERT_NEAR(found[i], weights[i], tolerance * std::max(1.0, std::abs(weights[i])))
            << optimizer->rule().name() << ", update " << t + 1 << ", element " << i;
    }
  }
}

}  // namespace
}  // namespace tasuki
