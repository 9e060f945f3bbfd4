// KernelHook: a built-in hook for which backends have kernels.
#pragma once

#include <span>

#include "optimizer/arena_slices.hpp"
#include "optimizer/hook.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// Gradients, and the scale that remains to be applied to them.
struct ScaledGradients {
  const ParameterArena& arena;
  const SliceOwners& owners;
  std::span<const ParameterInfo> infos;  // of the arena's entries
  LateScale scale;
};

class KernelHook : public OptimizerHook {
 public:
  KernelHook() : OptimizerHook(Kind::kernel) {}
  // The hook that replaces this one on CPUs; null: none does, apply() is called.
  virtual const NormHook* on_cpu() const { return nullptr; }
  // Returns the scale that remains to be applied after it.
  virtual double apply(const ScaledGradients& gradients) const = 0;
  // Whether apply() applies the whole scale, so that none remains.
  virtual bool applies_scale() const = 0;
};

}  // namespace tasuki
