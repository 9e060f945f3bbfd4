// Loops over a row of scores.
#pragma once

#include <cstdint>

namespace tasuki {

// The largest of at least one value.
float largest_in_row(const float* x, std::int64_t count);
// y = exp(x - shift), x <= shift, and 0 below exp(-87); returns the sum.
float exp_of_row(const float* x, float* y, float shift, std::int64_t count);
// y = x * factor.
void scale_row(const float* x, float* y, float factor, std::int64_t count);
// Smallest number of rows for a thread, by the exponentials in them.
std::int64_t row_grain(std::int64_t columns);

}  // namespace tasuki
