// An update rule of your own: names, hyper-parameters, a loop, and one line that registers it.
#include <limits>

#include <tasuki/optimizer/update_rule.hpp>

namespace {

constexpr double no_limit = std::numeric_limits<double>::infinity();

// Lion (Chen et al. 2023, arXiv 2302.06675): with u = sign(beta1 m + (1 - beta1) g),
//   p -= lr (u + weight_decay_rate p);  m = beta2 m + (1 - beta2) g.
class Lion : public tasuki::UpdateRule {
 public:
  std::string name() const override { return "Lion"; }
  // Initial values and allowed ranges.
  std::vector<tasuki::Hyperparameter> hyperparameters() const override {
    return {{"lr", 1e-4, 0, no_limit},
            {"beta1", 0.9, 0, 1},
            {"beta2", 0.99, 0, 1},
            {"weight_decay_rate", 0, 0, no_limit}};
  }
  std::vector<std::string> states() const override { return {"m"}; }
  // The hyper-parameter that --weight-decay sets and parameter groups replace.
  std::string decay_name() const override { return "weight_decay_rate"; }
  // Computed in double for each update; apply() gets them as floats.
  std::vector<double> factors(const tasuki::Hyperparameters& h, std::int64_t) const override {
    return {h["lr"], 1 - h["beta1"], 1 - h["beta2"], h["lr"] * h["weight_decay_rate"]};
  }

  // Called by several threads at once, with disjoint elements.
  void apply(const tasuki::RuleRange& range) const override {
    const float lr = range.factors[0], decay = range.factors[3];
    const float of_gradient = range.factors[1], fresh = range.factors[2];
    float* const p = range.parameter;
    float* const m = range.states[0];
    for (std::int64_t i = 0; i < range.count; ++i) {
      const float g = range.g(i);
      const float u = m[i] + of_gradient * (g - m[i]);
      p[i] -= lr * static_cast<float>((u > 0) - (u < 0)) + decay * p[i];
      m[i] += fresh * (g - m[i]);
    }
  }
};

const tasuki::RuleRegistration<Lion> registration{"lion"};

}  // namespace
