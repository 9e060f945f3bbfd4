// The optimizer's kernels.
#pragma once

#include "tasuki/tensor/cuda/launch.hpp"
#include "tasuki/tensor/operations.hpp"

namespace tasuki::kernels {

// One fused step over an arena, in one pass over memory.
void update(const Launch& launch, const UpdateStep& step);

}  // namespace tasuki::kernels
