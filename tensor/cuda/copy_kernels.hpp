// Kernels that convert, fill and rearrange.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// Converts values of one type to another.
void convert(const Launch& launch, DType to, void* destination, DType from, const void* source,
             std::int64_t count);
void fill(const Launch& launch, DType type, void* destination, double value, std::int64_t count);

// `items` matrices of rows x columns elements of `element_bytes` (1, 2, 4 or 8) each, transposed:
// N x C x HW to N x HW x C and back.
void transpose(const Launch& launch, void* destination, const void* source,
               std::size_t element_bytes, std::int64_t items, std::int64_t rows,
               std::int64_t columns);

// Copies `rows` runs of `length` bytes, which are `from_step` and `to_step` bytes apart.
void copy_runs(const Launch& launch, void* destination, std::int64_t to_step, const void* source,
               std::int64_t from_step, std::int64_t rows, std::int64_t length);

}  // namespace tasuki::kernels
