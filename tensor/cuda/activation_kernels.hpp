// Activation functions over arrays of `count` activations (float32, float16 or bfloat16, the same
// for all arrays of a call), computed in float32. Results may be written over inputs.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/operation_options.hpp"

namespace tasuki::kernels {

void apply(const Launch& launch, Unary op, DType type, const void* x, void* y, float slope,
           std::int64_t count);
// dx from the function's output y.
void apply_backward(const Launch& launch, Unary op, DType type, const void* y, const void* dy,
                    void* dx, float slope, std::int64_t count);

}  // namespace tasuki::kernels
