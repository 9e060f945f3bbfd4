// Vectorised loops over floats that add, scale and repeat, for one thread.
#pragma once

#include <cstdint>

#include "tensor/vectorize.hpp"

namespace tasuki {
TASUKI_VECTORIZED_BEGIN

// c = a + b
void add_kernel(const float* a, const float* b, float* c, std::int64_t count);
// y += scale * x
void accumulate_kernel(float* y, const float* x, float scale, std::int64_t count);
// x *= factor
void scale_kernel(float* x, float factor, std::int64_t count);
// average = decay * average + weight * value
void move_average_kernel(float* average, const float* value, float decay, float weight,
                         std::int64_t count);
// sums[j] += sum over rows i of x[i * columns + j]
void column_sum_kernel(const float* x, float* sums, std::int64_t rows, std::int64_t columns);
// sums[i] += sum over columns j of x[i * columns + j]
void row_sum_kernel(const float* x, float* sums, std::int64_t rows, std::int64_t columns);
// rows[i * columns + j] = values[j]
void repeat_row_kernel(const float* values, float* rows, std::int64_t count, std::int64_t columns);

TASUKI_VECTORIZED_END
}  // namespace tasuki
