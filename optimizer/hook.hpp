// Hooks: what happens to the mean gradient between backward pass and update.
#pragma once

#include <memory>
#include <string>

#include "tasuki/optimizer/arena.hpp"

namespace tasuki {

// The gradient as the update will see it: gradients() * scale + decay * values(), per element. A
// hook changes the two factors where that is enough (no pass over memory) or the arena itself.
struct GradientInFlight {
  ParameterArena& arena;
  double scale = 1;
  double decay = 0;
  // Writes scale and decay into the arena and resets them, for hooks that need the values.
  void materialize();
};

class OptimizerHook {
 public:
  virtual ~OptimizerHook() = default;
  // With its settings, "WeightDecay(0.0005)": ranks compare it.
  virtual std::string name() const = 0;
  // Work for the arena's device alone, which a recorded step repeats without calling this again:
  // numbers that differ from step to step are LateValues (tensor/late.hpp). Where that cannot be,
  // it begins with refuse_recording("why").
  virtual void apply(GradientInFlight& gradient) = 0;
};

// g += rate * w.
std::shared_ptr<OptimizerHook> weight_decay(double rate);
// g *= min(1, threshold / |g|), |g| the L2 norm over all parameters.
std::shared_ptr<OptimizerHook> gradient_clipping(double threshold);
// Layer-wise adaptive rate scaling (You et al., arXiv 1708.03888) with Chainer's formula, for each
// parameter: g = (g + decay * w) * r, r = |w| / (eps + |g| + decay * |w|) where |w| > threshold,
// else 1.
std::shared_ptr<OptimizerHook> gradient_lars(double threshold = 1e-2, double weight_decay = 0,
                                             double eps = 1e-9);

}  // namespace tasuki
