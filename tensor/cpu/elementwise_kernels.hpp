// Loops of ElementwiseOperations on contiguous float32 arrays; results may be written over inputs.
#pragma once

#include <cstdint>

#include "tensor/element_functions.hpp"

namespace tasuki {

// y = f(x) with the settings p and q.
using MapKernel = void (*)(const float* x, float* y, float p, float q, std::int64_t count);
MapKernel map_kernel(Map f, float p);

// dx from what gradient_needs_result() says is kept.
using MapGradientKernel = void (*)(const float* kept, const float* dy, float* dx, float p, float q,
                                   std::int64_t count);
MapGradientKernel map_gradient_kernel(Map f, float p);

// y from two or three values each.
using BinaryKernel = void (*)(const float* a, const float* b, float* y, std::int64_t count);
BinaryKernel binary_kernel(Binary f);
using TernaryKernel = void (*)(const float* a, const float* b, const float* c, float* y,
                               std::int64_t count);
TernaryKernel ternary_kernel(Ternary f);

}  // namespace tasuki
