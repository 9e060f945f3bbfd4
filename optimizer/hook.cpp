#include "tasuki/optimizer/hook.hpp"

#include <cmath>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

// g = g * scale + w * decay, in place.
void combine(const Tensor& g, double scale, const Tensor& w, double decay) {
  Backend& device = backend(g.device());
  if (scale != 1) device.scale(g, static_cast<float>(scale));
  if (decay != 0) device.accumulate(g, w, static_cast<float>(decay));
}

double norm(const Tensor& x) {
  return std::sqrt(backend(x.device()).squared_norm(x));
}

enum class Zero { allowed, refused };

void check_setting(const char* hook, const char* setting, double value, Zero zero) {
  if (std::isfinite(value) && (value > 0 || (value == 0 && zero == Zero::allowed))) return;
  fail_everywhere(ErrorKind::usage, "{}: {} = {}; expected a number {} 0", hook, setting, value,
                  zero == Zero::allowed ? ">=" : ">");
}

class WeightDecay final : public OptimizerHook {
 public:
  explicit WeightDecay(double rate) : rate_(rate) {}
  std::string name() const override { return fmt::format("WeightDecay({})", rate_); }
  void apply(GradientInFlight& gradient) override { gradient.decay += rate_; }

 private:
  double rate_;
};

class GradientClipping final : public OptimizerHook {
 public:
  explicit GradientClipping(double threshold) : threshold_(threshold) {}
  std::string name() const override { return fmt::format("GradientClipping({})", threshold_); }
  void apply(GradientInFlight& gradient) override {
    if (gradient.decay != 0) gradient.materialize();
    const Tensor& gradients = gradient.arena.gradients();
    if (!gradients.device().is_cpu())
      return backend(gradients.device()).clip(gradients, gradient.scale, threshold_);
    const double length = norm(gradients) * gradient.scale;
    if (length > threshold_) gradient.scale *= threshold_ / length;
  }

 private:
  double threshold_;
};

class GradientLars final : public OptimizerHook {
 public:
  GradientLars(double threshold, double decay, double eps)
      : threshold_(threshold), decay_(decay), eps_(eps) {}
  std::string name() const override {
    return fmt::format("GradientLARS({}, {}, {})", threshold_, decay_, eps_);
  }
  void apply(GradientInFlight& gradient) override {
    if (gradient.decay != 0) gradient.materialize();
    const LarsRule rule{gradient.scale, threshold_, decay_, eps_};
    for (const ParameterArena::Entry& entry : gradient.arena.entries()) {
      const Tensor w = ParameterArena::part(gradient.arena.values(), entry);
      const Tensor g = ParameterArena::part(gradient.arena.gradients(), entry);
      backend(g.device()).lars(g, w, rule);
    }
    gradient.scale = 1;
  }

 private:
  double threshold_, decay_, eps_;
};

}  // namespace

void GradientInFlight::materialize() {
  combine(arena.gradients(), scale, arena.values(), decay);
  scale = 1;
  decay = 0;
}

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
