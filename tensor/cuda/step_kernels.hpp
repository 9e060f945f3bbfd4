// Kernels for steps without waiting for the device (mailbox.cpp), and what changes gradients
// (gradient_scaling.cpp).
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/operations.hpp"
#include "tensor/step_clock.hpp"

namespace tasuki::kernels {

inline constexpr int most_posted = 16;  // at once

// Scalars of any types.
struct PostedScalars {
  const void* values[most_posted];
  DType types[most_posted];
  int count = 0;
  int before = 0;  // scalars of the row that were posted before these
  bool are_last = false;
};

// Into row *row % rows of a table with this many columns, in host memory that the device can write:
// the values from column 1 + before on; after the last ones *row + 1 into column 0, in that order
// as seen by the host.
void post(const Launch& launch, double* table, std::int64_t rows, std::int64_t columns,
          const std::int64_t* row, const PostedScalars& scalars);

// clock->advance(moment, the device's time).
void stamp(const Launch& launch, StepClock* clock, StepClock::Moment moment);

// x *= min(1, threshold / (scale * sqrt(*squared_norm))).
void clip(const Launch& launch, float* x, std::int64_t count, const double* squared_norm,
          const LateScale& scale, double threshold);

// g = g * gradient_scale * r + w * decay * r, r as LarsRule::rate (tensor/backend.hpp) with the
// roots of squared_norms: w's, then g's.
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

}  // namespace tasuki::kernels
