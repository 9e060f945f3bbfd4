#include "optimizer/hook.hpp"

#include <cmath>

#include "optimizer/kernel_hook.hpp"

namespace tasuki {
namespace {

enum class Zero { allowed, refused };

void check_setting(const char* hook, const char* setting, double value, Zero zero) {
  if (std::isfinite(value) && (value > 0 || (value == 0 && zero == Zero::allowed))) return;
  fail_everywhere(ErrorKind::usage, "{}: {} = {}; expected a number {} 0", hook, setting, value,
                  zero == Zero::allowed ? ">=" : ">");
}

class WeightDecay final : public FactorHook {
 public:
  explicit WeightDecay(double rate) : rate_(rate) {}
  std::string name() const override { return fmt::format("WeightDecay({})", rate_); }
  bool decays_weights() const override { return true; }
  bool differs_by_parameter() const override { return false; }
  void adjust(GradientFactors& factors, const ParameterInfo& parameter,
              std::int64_t) const override {
    factors.decay += parameter.weight_decay.value_or(rate_);
  }

 private:
  double rate_;
};

class GradientClipping final : public KernelHook {
 public:
  explicit GradientClipping(double threshold) : threshold_(threshold) {}
  std::string name() const override { return fmt::format("GradientClipping({})", threshold_); }
  bool applies_scale() const override { return false; }
  // On a CPU, which knows the norm at once, it is left to the update.
  double apply(const ScaledGradients& gradients) const override {
    const Tensor& g = gradients.arena.gradients();
    const double scale = gradients.scale.value;
    if (!g.device().is_cpu()) {
      backend(g.device()).clip(g, gradients.scale, threshold_);
      return scale;
    }
    const double length = std::sqrt(gradients.owners.squared_norm(g)) * scale;
    return length > threshold_ ? scale * (threshold_ / length) : scale;
  }

 private:
  double threshold_;
};

// On CPUs factors are computed from norms; on a GPU a kernel reads the norms in device memory.
class GradientLars final : public KernelHook {
 public:
  GradientLars(double threshold, double decay, double eps)
      : rule_{.gradient_scale = {}, .threshold = threshold, .decay = decay, .eps = eps},
        on_cpu_(rule_) {}
  std::string name() const override {
    return fmt::format("GradientLARS({}, {}, {})", rule_.threshold, rule_.decay, rule_.eps);
  }
  bool decays_weights() const override { return true; }
  bool applies_scale() const override { return true; }
  const NormHook* on_cpu() const override { return &on_cpu_; }
  double apply(const ScaledGradients& gradients) const override {
    const ParameterArena& arena = gradients.arena;
    for (std::size_t i = 0; i < arena.entries().size(); ++i) {
      const Tensor w = ParameterArena::part(arena.values(), arena.entries()[i]);
      const Tensor g = ParameterArena::part(arena.gradients(), arena.entries()[i]);
      LarsRule rule = rule_;
      rule.gradient_scale = gradients.scale;
      rule.decay = gradients.infos[i].weight_decay.value_or(rule.decay);
      backend(g.device()).lars(g, w, rule);
    }
    return 1;
  }

 private:
  class OnCpu final : public NormHook {
   public:
    explicit OnCpu(const LarsRule& rule) : rule_(rule) {}
    std::string name() const override { return "GradientLARS"; }
    void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms> norms, double,
                std::int64_t) const override {
      for (std::size_t i = 0; i < norms.size(); ++i) {
        LarsRule rule = rule_;
        rule.decay = norms[i].info.weight_decay.value_or(rule.decay);
        const double rate = rule.rate(norms[i].w, norms[i].g);
        factors[i] = {rate, rule.decay * rate};
      }
    }

   private:
    LarsRule rule_;
  };

  LarsRule rule_;
  OnCpu on_cpu_;
};

}  // namespace

std::shared_ptr<OptimizerHook> weight_decay(double rate) {
  check_setting("WeightDecay", "rate", rate, Zero::allowed);
  return std::make_shared<WeightDecay>(rate);
}

std::shared_ptr<OptimizerHook> gradient_clipping(double threshold) {
  check_setting("GradientClipping", "threshold", threshold, Zero::refused);
  return std::make_shared<GradientClipping>(threshold);
}

std::shared_ptr<OptimizerHook> gradient_lars(double threshold, double weight_decay, double eps) {
  check_setting("GradientLARS", "threshold", threshold, Zero::allowed);
  check_setting("GradientLARS", "weight_decay", weight_decay, Zero::allowed);
  check_setting("GradientLARS", "eps", eps, Zero::refused);
  return std::make_shared<GradientLars>(threshold, weight_decay, eps);
}

}  // namespace tasuki
