// Loops of softmax over rows and over columns.
#pragma once

#include <cstdint>

namespace tasuki {

// One row in contiguous memory; `logarithm`: the logarithm of the softmax.
void softmax_row(const float* x, float* y, std::int64_t length, bool logarithm);
void softmax_row_gradient(const float* y, const float* dy, float* dx, std::int64_t length,
                          bool logarithm);

// Up to this many neighbouring columns at once, whose elements are `stride` apart.
inline constexpr std::int64_t most_softmax_columns = 64;
void softmax_columns(const float* x, float* y, std::int64_t length, std::int64_t stride,
                     std::int64_t columns, bool logarithm);
void softmax_columns_gradient(const float* y, const float* dy, float* dx, std::int64_t length,
                              std::int64_t stride, std::int64_t columns, bool logarithm);

}  // namespace tasuki
