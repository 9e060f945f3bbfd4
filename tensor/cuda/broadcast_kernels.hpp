// Functions of two and three arrays that are broadcast to a common shape (ElementwiseOperations),
// for arrays of activations of one type, computed in float32.
#pragma once

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/element_functions.hpp"
#include "tensor/strided_loop.hpp"

namespace tasuki::kernels {

// `count` elements of y. Without loops, all arrays have that many, in the same order.
void binary(const Launch& launch, Binary f, DType type, const void* a, const void* b, void* y,
            const StridedLoop<2>* loop, std::int64_t count);
void ternary(const Launch& launch, Ternary f, DType type, const void* a, const void* b,
             const void* c, void* y, const StridedLoop<3>* loop, std::int64_t count);

}  // namespace tasuki::kernels
