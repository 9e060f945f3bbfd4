// Update rules as a program outside of Tasuki writes them.
#pragma once

#include <limits>

#include "optimizer/update_rule.hpp"

namespace tasuki::testing {

// Chainer's MomentumSGD once more.
class OwnMomentum : public UpdateRule {
 public:
  std::string name() const override { return "OwnMomentum"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {{"lr", 0.01, 0, std::numeric_limits<double>::infinity()}, {"momentum", 0.9, 0, 1}};
  }
  std::vector<std::string> states() const override { return {"v"}; }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t) const override {
    return {h["lr"], h["momentum"]};
  }
  void apply(const RuleRange& range) const override {
    const float lr = range.factors[0], momentum = range.factors[1];
    float* const v = range.states[0];
    for (std::int64_t i = 0; i < range.count; ++i) {
      v[i] = momentum * v[i] - lr * range.g(i);
      range.parameter[i] += v[i];
    }
  }
};

// p -= lr |w| / |g| g: what LARS is without a threshold, as a rule.
class OwnLars : public UpdateRule {
 public:
  std::string name() const override { return "OwnLars"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {{"lr", 0.01, 0, std::numeric_limits<double>::infinity()}};
  }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t) const override {
    return {h["lr"]};
  }
  bool needs_norms() const override { return true; }
  void apply(const RuleRange& range) const override {
    const auto rate = static_cast<float>(range.factors[0] * range.w_norm / range.g_norm);
    for (std::int64_t i = 0; i < range.count; ++i) range.parameter[i] -= rate * range.g(i);
  }
};

}  // namespace tasuki::testing
