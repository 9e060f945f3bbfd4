// The optimizer's kernels: what changes gradients before an update, and the update.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/update_operations.hpp"

namespace tasuki::kernels {

// x *= min(1, threshold / (scale * sqrt(*squared_norm))).
void clip(const Launch& launch, float* x, std::int64_t count, const double* squared_norm,
          const LateScale& scale, double threshold);

// g = g * gradient_scale * r + w * decay * r, r as LarsRule::rate with the roots of squared_norms:
// w's, then g's.
struct LarsNumbers {
  LateScale gradient_scale;
  double threshold, decay, eps;
};
void lars(const Launch& launch, float* g, const float* w, std::int64_t count,
          const double* squared_norms, const LarsNumbers& numbers);

// x /= state[0]; state[2] = 1 if a result is not finite.
void unscale(const Launch& launch, float* x, std::int64_t count, float* state);
// *found = 1 if a number is not finite.
void find_non_finite(const Launch& launch, const float* x, std::int64_t count, float* found);
// state: scale, good steps, found (see Backend::adjust_loss_scale).
void adjust_loss_scale(const Launch& launch, float* state, float growth, float backoff,
                       float interval);

// One fused pass over an arena.
void update(const Launch& launch, const UpdatePass& pass);

// See NormPass. `scratch`: norm_scratch() doubles.
std::int64_t norm_scratch(std::int64_t parameters);
void norms(const Launch& launch, const NormPass& pass, double* scratch);

// See LambPass. `scratch`: norm_scratch() doubles.
void lamb(const Launch& launch, const LambPass& pass, double* scratch);
// The second pass, which update() calls: whole lines of elements.
void lamb_step(const Launch& launch, const UpdatePass& pass);

}  // namespace tasuki::kernels
