// Kernels of ElementwiseOperations over arrays of activations (float32, float16 or bfloat16, the
// same for all arrays of a call), computed in float32. Results may be written over inputs.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/element_functions.hpp"

namespace tasuki::kernels {

void map(const Launch& launch, Map f, DType type, const void* x, void* y, float p, float q,
         std::int64_t count);
// dx from what gradient_needs_result() says is kept.
void map_gradient(const Launch& launch, Map f, DType type, const void* kept, const void* dy,
                  void* dx, float p, float q, std::int64_t count);

}  // namespace tasuki::kernels
