#include "tasuki/optimizer/rule.hpp"

#include <cmath>
#include <limits>

namespace tasuki {
namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

Hyperparameter rate(const char* name, double initial) {
  return {name, initial, 0, no_limit};
}
// Momentum, or the weight of the past in a running average.
Hyperparameter decay_factor(const char* name, double initial) {
  return {name, initial, 0, 1};
}
// Not below what a float can hold: 0 / (sqrt(0) + eps) must stay a number.
Hyperparameter epsilon(double initial) {
  return {"eps", initial, std::numeric_limits<float>::min(), no_limit};
}

RuleFactors momentum_factors(const std::vector<double>& h, std::int64_t) {
  return {h[0], {h[1]}};
}

// All rules that have one begin with it.
double constant_rate(const std::vector<double>& h, std::int64_t) {
  return h[0];
}

double adam_rate(const std::vector<double>& h, std::int64_t t) {
  const double alpha = h[0], beta1 = h[1], beta2 = h[2];
  const auto n = static_cast<double>(t);
  return alpha * std::sqrt(1 - std::pow(beta2, n)) / (1 - std::pow(beta1, n));
}

RuleFactors adam_factors(const std::vector<double>& h, std::int64_t t) {
  const double beta1 = h[1], beta2 = h[2], eps = h[3], eta = h[4], decay = h[5];
  return {eta * adam_rate(h, t), {1 - beta1, 1 - beta2, eps, eta * decay}};
}

std::vector<Hyperparameter> adam_hyperparameters() {
  return {
      rate("alpha", 1e-3), decay_factor("beta1", 0.9),  decay_factor("beta2", 0.999), epsilon(1e-8),
      rate("eta", 1),      rate("weight_decay_rate", 0)};
}

}  // namespace

const std::vector<OptimizerRule>& optimizer_rules() {
  static const std::vector<OptimizerRule> rules = {
      {"sgd",
       "SGD",
       UpdateRule::sgd,
       "lr",
       {rate("lr", 0.01)},
       {},
       [](const std::vector<double>& h, std::int64_t) {
         return RuleFactors{h[0], {}};
       },
       constant_rate},
      {"momentum_sgd",
       "MomentumSGD",
       UpdateRule::momentum_sgd,
       "lr",
       {rate("lr", 0.01), decay_factor("momentum", 0.9)},
       {"v"},
       momentum_factors,
       constant_rate},
      {"nesterov",
       "NesterovAG",
       UpdateRule::nesterov,
       "lr",
       {rate("lr", 0.01), decay_factor("momentum", 0.9)},
       {"v"},
       momentum_factors,
       constant_rate},
      {"adam",
       "Adam",
       UpdateRule::adam,
       "alpha",
       adam_hyperparameters(),
       {"m", "v"},
       adam_factors,
       adam_rate},
      {"adamw",
       "AdamW",
       UpdateRule::adamw,
       "alpha",
       adam_hyperparameters(),
       {"m", "v"},
       adam_factors,
       adam_rate},
      {"rmsprop",
       "RMSprop",
       UpdateRule::rmsprop,
       "lr",
       {rate("lr", 0.01), decay_factor("alpha", 0.99), epsilon(1e-8)},
       {"ms"},
       [](const std::vector<double>& h, std::int64_t) {
         return RuleFactors{h[0], {1 - h[1], h[2]}};
       },
       constant_rate},
      {"adagrad",
       "AdaGrad",
       UpdateRule::adagrad,
       "lr",
       {rate("lr", 1e-3), epsilon(1e-8)},
       {"h"},
       [](const std::vector<double>& h, std::int64_t) {
         return RuleFactors{h[0], {h[1]}};
       },
       constant_rate},
      {"adadelta",
       "AdaDelta",
       UpdateRule::adadelta,
       "",
       {decay_factor("rho", 0.95), epsilon(1e-6)},
       {"msg", "msdx"},
       [](const std::vector<double>& h, std::int64_t) {
         return RuleFactors{1, {1 - h[0], h[1]}};
       },
       nullptr},
  };
  return rules;
}

}  // namespace tasuki
