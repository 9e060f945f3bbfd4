// The optimizer's kernels.
#pragma once

#include <cstdint>

#include "tasuki/tensor/cuda/launch.hpp"
#include "tasuki/tensor/operations.hpp"

namespace tasuki::kernels {

// One fused step over an arena, in one pass over memory.
void update(const Launch& launch, const UpdateStep& step);

// See NormStep. `scratch`: norm_scratch() doubles.
std::int64_t norm_scratch(std::int64_t parameters);
void norms(const Launch& launch, const NormStep& step, double* scratch);

}  // namespace tasuki::kernels
