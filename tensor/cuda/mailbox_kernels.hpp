// What a step leaves for the host, which does not wait for it (mailbox.cpp).
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
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
// as seen by the host. Then the step has ended on `clock`, if not null.
void post(const Launch& launch, double* table, std::int64_t rows, std::int64_t columns,
          const std::int64_t* row, const PostedScalars& scalars, StepClock* clock);

// clock->advance(moment, the device's time).
void stamp(const Launch& launch, StepClock* clock, StepClock::Moment moment);

}  // namespace tasuki::kernels
