// Kernels of ElementwiseOperations over arrays of `count` activations (float32, float16 or
// bfloat16, the same for all arrays of a call), computed in float32. Results may be written over
// inputs.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/element_functions.hpp"
#include "tensor/strided_loop.hpp"

namespace tasuki::kernels {

// The functions of ElementwiseOperations (tensor/element_functions.hpp); `p` and `q` as there.
void map(const Launch& launch, Map f, DType type, const void* x, void* y, float p, float q,
         std::int64_t count);
// dx from what gradient_needs_result() says is kept.
void map_gradient(const Launch& launch, Map f, DType type, const void* kept, const void* dy,
                  void* dx, float p, float q, std::int64_t count);
// `count` elements of y, from arrays that `loop` broadcasts to its shape. Without a loop, all
// arrays have that many elements, in the same order.
void binary(const Launch& launch, Binary f, DType type, const void* a, const void* b, void* y,
            const StridedLoop<2>* loop, std::int64_t count);
void ternary(const Launch& launch, Ternary f, DType type, const void* a, const void* b,
             const void* c, void* y, const StridedLoop<3>* loop, std::int64_t count);

}  // namespace tasuki::kernels
