#include "optimizer/built_in_rules.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/backend.hpp"

namespace tasuki {

namespace {

void check_is_by_element(const KernelRule& rule) {
  if (rule.kernel() == UpdateKernel::lamb)
    fail_everywhere(ErrorKind::usage,
                    "an update of {} depends on whole parameters; a rule cannot be built on it",
                    rule.name());
}

}  // namespace

void KernelRule::apply(const RuleRange& range) const {
  check_is_by_element(*this);
  UpdatePass on_cpu{.device = Device::cpu(),
                    .kernel = kernel(),
                    .parameter = range.parameter,
                    .gradient = range.gradient,
                    .count = range.count,
                    .factors = {}};
  std::ranges::copy(range.states, on_cpu.state);
  on_cpu.factors.scale = range.scale;
  on_cpu.factors.decay = range.decay;
  std::ranges::copy(range.factors, on_cpu.factors.of_rule);
  backend(on_cpu.device).update(on_cpu);
}

void KernelRule::apply_on_gpu(const RuleArena& arena) const {
  check_is_by_element(*this);
  UpdatePass on_gpu{.device = arena.device,
                    .kernel = kernel(),
                    .parameter = arena.parameters,
                    .gradient = arena.gradients,
                    .count = arena.count,
                    .factors = {},
                    .table = arena.factors,
                    .rows = arena.rows,
                    .skip = arena.skip};
  std::ranges::copy(arena.states, on_gpu.state);
  backend(on_gpu.device).update(on_gpu);
}

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

class Sgd final : public KernelRule {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::sgd; }
  std::string name() const override { return "SGD"; }
  std::vector<Hyperparameter> hyperparameters() const override { return {rate("lr", 0.01)}; }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t) const override {
    return {h["lr"]};
  }
};

class MomentumSgd : public KernelRule {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::momentum_sgd; }
  std::string name() const override { return "MomentumSGD"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {rate("lr", 0.01), decay_factor("momentum", 0.9)};
  }
  std::vector<std::string> states() const override { return {"v"}; }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t) const override {
    return {h["lr"], h["momentum"]};
  }
};

class NesterovAG final : public MomentumSgd {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::nesterov; }
  std::string name() const override { return "NesterovAG"; }
};

class Adam : public KernelRule {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::adam; }
  std::string name() const override { return "Adam"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {rate("alpha", 1e-3),
            decay_factor("beta1", 0.9),
            decay_factor("beta2", 0.999),
            epsilon(1e-8),
            rate("eta", 1),
            rate("weight_decay_rate", 0)};
  }
  std::vector<std::string> states() const override { return {"m", "v"}; }
  std::string rate_name() const override { return "alpha"; }
  // With bias correction, as Chainer's observe_lr reports it.
  std::optional<double> learning_rate(const Hyperparameters& h, std::int64_t t) const override {
    const auto n = static_cast<double>(t);
    return h["alpha"] * std::sqrt(1 - std::pow(h["beta2"], n)) / (1 - std::pow(h["beta1"], n));
  }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t t) const override {
    return {h["eta"] * learning_rate(h, t).value(), 1 - h["beta1"], 1 - h["beta2"], h["eps"],
            h["eta"] * h["weight_decay_rate"]};
  }
};

class AdamW final : public Adam {
 public:
  std::string name() const override { return "AdamW"; }
  std::string decay_name() const override { return "weight_decay_rate"; }
};

class Lamb final : public KernelRule {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::lamb; }
  std::string name() const override { return "LAMB"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {rate("alpha", 1e-3), decay_factor("beta1", 0.9),   decay_factor("beta2", 0.999),
            epsilon(1e-6),       rate("weight_decay_rate", 0), rate("trust", 1)};
  }
  std::vector<std::string> states() const override { return {"m", "v"}; }
  std::string rate_name() const override { return "alpha"; }
  std::string decay_name() const override { return "weight_decay_rate"; }
  bool needs_norms() const override { return true; }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t t) const override {
    const auto n = static_cast<double>(t);
    return {h["alpha"],
            1 - h["beta1"],
            1 - h["beta2"],
            h["eps"],
            h["weight_decay_rate"],
            1 / (1 - std::pow(h["beta1"], n)),
            1 / (1 - std::pow(h["beta2"], n)),
            h["trust"]};
  }
};

class RmsProp final : public KernelRule {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::rmsprop; }
  std::string name() const override { return "RMSprop"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {rate("lr", 0.01), decay_factor("alpha", 0.99), epsilon(1e-8)};
  }
  std::vector<std::string> states() const override { return {"ms"}; }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t) const override {
    return {h["lr"], 1 - h["alpha"], h["eps"]};
  }
};

class AdaGrad final : public KernelRule {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::adagrad; }
  std::string name() const override { return "AdaGrad"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {rate("lr", 1e-3), epsilon(1e-8)};
  }
  std::vector<std::string> states() const override { return {"h"}; }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t) const override {
    return {h["lr"], h["eps"]};
  }
};

class AdaDelta final : public KernelRule {
 public:
  UpdateKernel kernel() const override { return UpdateKernel::adadelta; }
  std::string name() const override { return "AdaDelta"; }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {decay_factor("rho", 0.95), epsilon(1e-6)};
  }
  std::vector<std::string> states() const override { return {"msg", "msdx"}; }
  std::string rate_name() const override { return ""; }
  std::vector<double> factors(const Hyperparameters& h, std::int64_t) const override {
    return {1 - h["rho"], h["eps"]};
  }
};

}  // namespace

std::vector<NamedRule> built_in_rules() {
  return {{"sgd", std::make_shared<Sgd>()},
          {"momentum_sgd", std::make_shared<MomentumSgd>()},
          {"nesterov", std::make_shared<NesterovAG>()},
          {"adam", std::make_shared<Adam>()},
          {"adamw", std::make_shared<AdamW>()},
          {"lamb", std::make_shared<Lamb>()},
          {"rmsprop", std::make_shared<RmsProp>()},
          {"adagrad", std::make_shared<AdaGrad>()},
          {"adadelta", std::make_shared<AdaDelta>()}};
}

}  // namespace tasuki
