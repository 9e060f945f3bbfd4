// The optimizer's share of the CPU backend.
#pragma once

#include <cstdint>

#include "tasuki/tensor/backend.hpp"

namespace tasuki {

// One fused step over an arena (see UpdateStep).
void cpu_update(const UpdateStep& step);
// Sum of squares of `count` values, in double.
double cpu_squared_norm(const float* values, std::int64_t count);

}  // namespace tasuki
