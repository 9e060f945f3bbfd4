// KernelHook: a hook of Tasuki itself that backends have kernels for.
#pragma once

#include <span>

#include "tasuki/optimizer/hook.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {

// Gradients that a scale remains to be applied to.
struct ScaledGradients {
  const ParameterArena& arena;
  std::span<const ParameterInfo> infos;  // of the arena's entries
  LateScale scale;
};

class KernelHook : public OptimizerHook {
 public:
  KernelHook() : OptimizerHook(Kind::kernel) {}
  // Returns the scale that remains to be applied after it.
  virtual double apply(const ScaledGradients& gradients) const = 0;
  // Whether it applies the scale, so that none remains.
  virtual bool applies_scale() const = 0;
};

}  // namespace tasuki
