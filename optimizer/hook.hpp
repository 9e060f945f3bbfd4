// Hooks: change the mean gradient between exchange and update, in the order in which they were
// added.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "optimizer/arena.hpp"
#include "optimizer/update_rule.hpp"

namespace tasuki {

// A hook derives from FactorHook, NormHook or ArrayHook: the first of these that can express it is
// the cheapest.
class OptimizerHook {
 public:
  virtual ~OptimizerHook() = default;
  // With its settings, "WeightDecay(0.0005)". Ranks compare it, and snapshots store it.
  virtual std::string name() const = 0;
  // Whether it adds a multiple of the weights to gradients, at a rate that groups may replace
  // (ParameterInfo::weight_decay).
  virtual bool decays_weights() const { return false; }

 private:
  friend class FactorHook;
  friend class NormHook;
  friend class ArrayHook;
  friend class KernelHook;
  friend class UpdatePlan;
  enum class Kind : std::uint8_t { factors, norms, arrays, kernel };
  explicit OptimizerHook(Kind kind) : kind_(kind) {}
  Kind kind_;
};

// A parameter's gradient becomes scale * g + decay * w, where g is the gradient in memory. The
// initial `scale` may include the division by the number of examples.
struct GradientFactors {
  double scale = 1;
  double decay = 0;
};

// Gives each parameter a scale and a decay. The update applies them without an extra pass over
// memory, unless a hook of another kind follows, before which they must be applied.
class FactorHook : public OptimizerHook {
 public:
  FactorHook() : OptimizerHook(Kind::factors) {}
  // Changes the factors that earlier hooks left: multiply `scale`, never assign it; to scale the
  // whole gradient, also multiply `decay`. Called on the host, once for each parameter, before each
  // step `t` (1, 2, ...), replayed steps included. It may read members that change between steps,
  // but must not change any itself.
  virtual void adjust(GradientFactors& factors, const ParameterInfo& parameter,
                      std::int64_t t) const = 0;
  // False: adjust() uses only weight_decay of `parameter`, and is called once for each group.
  virtual bool differs_by_parameter() const { return true; }
};

// L2 norms after the hooks before this one.
struct ParameterNorms {
  const ParameterInfo& info;
  double w = 0, g = 0;
};

// Factors that depend on norms of one parameter or of the whole gradient. This costs one pass that
// reads, and one that writes unless all parameters get the same scale. On a GPU the host waits for
// the norms and the step is not recorded; gradient_clipping() and gradient_lars() avoid both with
// kernels of their own.
class NormHook : public OptimizerHook {
 public:
  NormHook() : OptimizerHook(Kind::norms) {}
  // `all`: the norm of the whole gradient. `factors[i]` belongs to `norms[i]` and is initially {1,
  // 0}.
  virtual void adjust(std::span<GradientFactors> factors, std::span<const ParameterNorms> norms,
                      double all, std::int64_t t) const = 0;
};

// The arrays of an ArrayHook, in the memory of one device. Offsets of parameters are the arena's.
struct GradientArrays {
  const ParameterArena& arena;
  // Gradients are the mean, as changed by earlier hooks. Padding between parameters must stay 0.
  Tensor values, gradients;
  Device device() const { return values.device(); }
};

// For everything else. Costs one pass that applies the factors of earlier hooks, then apply().
class ArrayHook : public OptimizerHook {
 public:
  ArrayHook() : OptimizerHook(Kind::arrays) {}
  // Changes gradients in place, by work on the device. A recorded step calls it only once, so
  // numbers that change from step to step must be LateValues (tensor/late_values.hpp). If that is
  // impossible, call refuse_recording("why") first.
  virtual void apply(const GradientArrays& arrays) = 0;
};

// g += rate * w.
std::shared_ptr<OptimizerHook> weight_decay(double rate);
// g *= min(1, threshold / |g|), with |g| the L2 norm over all parameters.
std::shared_ptr<OptimizerHook> gradient_clipping(double threshold);
// Layer-wise adaptive rate scaling (You et al., arXiv 1708.03888) with Chainer's formula, for each
// parameter: g = (g + decay * w) * r with r = |w| / (eps + |g| + decay * |w|) if |w| > threshold,
// else 1.
std::shared_ptr<OptimizerHook> gradient_lars(double threshold = 1e-2, double weight_decay = 0,
                                             double eps = 1e-9);

}  // namespace tasuki
