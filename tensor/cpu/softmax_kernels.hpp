// Loops over rows of scores and over columns, for softmax and cross entropy.
#pragma once

#include <cstdint>

#include "tensor/vectorize.hpp"

namespace tasuki {

// Smallest number of rows for a thread, by the exponentials in them.
std::int64_t row_grain(std::int64_t columns);

// Softmax of one row in contiguous memory; `logarithm`: the logarithm of the softmax.
void softmax_row(const float* x, float* y, std::int64_t length, bool logarithm);
void softmax_row_gradient(const float* y, const float* dy, float* dx, std::int64_t length,
                          bool logarithm);

TASUKI_VECTORIZED_BEGIN

// The largest of at least one value.
float largest_in_row(const float* x, std::int64_t count);
// y = exp(x - shift), x <= shift, and 0 below exp(-87); returns the sum.
float exp_of_row(const float* x, float* y, float shift, std::int64_t count);
// y = x * factor.
void scale_row(const float* x, float* y, float factor, std::int64_t count);

// Up to this many neighbouring columns at once, whose elements are `stride` apart.
inline constexpr std::int64_t most_softmax_columns = 64;
void softmax_columns(const float* x, float* y, std::int64_t length, std::int64_t stride,
                     std::int64_t columns, bool logarithm);
void softmax_columns_gradient(const float* y, const float* dy, float* dx, std::int64_t length,
                              std::int64_t stride, std::int64_t columns, bool logarithm);

TASUKI_VECTORIZED_END
}  // namespace tasuki
