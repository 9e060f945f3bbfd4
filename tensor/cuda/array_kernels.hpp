// Kernels of ArrayOperations.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/strided_loop.hpp"

namespace tasuki::kernels {

// to[i] = from at the loop's i-th place, and the inverse; elements of 1, 2, 4 or 8 bytes.
void copy_from_strided(const Launch& launch, std::size_t element_bytes, const StridedLoop<1>& loop,
                       const void* from, void* to, std::int64_t count);
void copy_to_strided(const Launch& launch, std::size_t element_bytes, const StridedLoop<1>& loop,
                     const void* from, void* to, std::int64_t count);

// y (outer x pieces x inner) = factor times the sums, or the largest elements, of x (outer x length
// x inner) over pieces of the middle axis, `piece` elements each, the last one the rest.
void reduce_axis(const Launch& launch, bool is_sum, DType from, const void* x, DType to, void* y,
                 std::int64_t outer, std::int64_t length, std::int64_t inner, std::int64_t piece,
                 float factor);

}  // namespace tasuki::kernels
