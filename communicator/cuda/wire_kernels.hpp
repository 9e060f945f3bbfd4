// Kernels that convert gradients to the type in which they travel, and back.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// wire[i] = values[i] * factor, rounded to float16 or bfloat16 (to nearest even).
void narrow(const Launch& launch, void* wire, DType type, const float* values, std::int64_t count,
            float factor);
// values[i] = wire[i] * factor.
void widen(const Launch& launch, float* values, const void* wire, DType type, std::int64_t count,
           float factor);

}  // namespace tasuki::kernels
