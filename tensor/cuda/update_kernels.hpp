// The optimizer's kernels.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/operations.hpp"

namespace tasuki::kernels {

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
