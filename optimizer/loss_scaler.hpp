// LossScaler: dynamic loss scaling for float16 (Micikevicius et al., arXiv 1710.03740,
// section 3.2).
#pragma once

#include <cstdint>

#include "tensor/backend.hpp"

namespace tasuki {

// The loss is multiplied by a scale before the backward pass, so that small gradients do not vanish
// in float16, and the summed gradients are divided by the scale again. A step whose gradients
// contain a number that is not finite changes nothing and halves the scale; many good steps in a
// row double it. All of that happens on the device, so the host does not wait, and on sums that are
// the same on all ranks, so all decide alike. Skipped steps count as updates (Optimizer::t). The
// scale changes in Backend::adjust_loss_scale (tensor/cpu/gradient_scaling.cpp,
// tensor/cuda/gradient_scaling_kernels.cu).
class LossScaler {
 public:
  struct Settings {
    double initial = 65536;
    LossScaleRule rule;
  };
  explicit LossScaler(Device device) : LossScaler(device, Settings()) {}
  LossScaler(Device device, const Settings& settings);

  // Device work, in this order in each step.
  //
  // The gradient of a mean loss from which its backward pass starts.
  Tensor seed(double examples) const;
  // Divides the gradients by the scale, and searches them, before hooks and update.
  void unscale(const Tensor& gradients) const;
  // 1 if unscale() has found a number that is not finite, else 0; the update reads it. Ranks that
  // each search a part of the gradients agree on it before the update.
  const float* skip() const { return state_.data<float>() + 2; }
  Tensor found() const { return state_.slice(2, 3); }
  // Sets the scale of the next step.
  void adjust() const;

  // These wait for the device.
  double scale() const { return state_.slice(0, 1).item(); }
  std::int64_t good_steps() const { return static_cast<std::int64_t>(state_.slice(1, 2).item()); }
  void restore(double scale, std::int64_t good_steps) const;

 private:
  Tensor state_;  // scale, good steps, whether a number that is not finite was found
  LossScaleRule rule_;
};

}  // namespace tasuki
