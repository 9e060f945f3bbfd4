// LossScaler: dynamic loss scaling for float16 (Micikevicius et al., arXiv 1710.03740,
// section 3.2).
#pragma once

#include <cstdint>

#include "tensor/backend.hpp"

namespace tasuki {

// The loss is multiplied by a scale before the backward pass, so that small gradients do not vanish
// in float16, and the summed gradients are divided by it again. A step whose gradients contain a
// number that is not finite changes nothing and halves the scale; after many good steps in a row it
// doubles. All of that happens on the device, on sums that are the same on all ranks, so that they
// decide alike and the host does not wait. Skipped steps count as updates (Optimizer::t).
class LossScaler {
 public:
  struct Settings {
    double initial = 65536;
    LossScaleRule rule;
  };
  explicit LossScaler(Device device) : LossScaler(device, Settings()) {}
  LossScaler(Device device, const Settings& settings);

  // Device work, in this order in each step: what backward() of a mean loss starts with; the
  // gradients before hooks and update (which looks at skip()); the scale of the next step.
  Tensor seed(double examples) const;
  void unscale(const Tensor& gradients) const;
  const float* skip() const { return state_.data<float>() + 2; }
  // What skip() points to: 1 if such a number was found, else 0. Where each rank searches a part of
  // the gradients, ranks agree on it before the update.
  Tensor found() const { return state_.slice(2, 3); }
  void adjust() const;

  // Wait for the device.
  double scale() const { return state_.slice(0, 1).item(); }
  std::int64_t good_steps() const { return static_cast<std::int64_t>(state_.slice(1, 2).item()); }
  void restore(double scale, std::int64_t good_steps) const;

 private:
  Tensor state_;  // scale, good steps, whether one was found that is not finite
  LossScaleRule rule_;
};

}  // namespace tasuki
