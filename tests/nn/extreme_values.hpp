// Functions where floats end: huge and subnormal numbers, infinities and NaN, against their
// definitions in long double. The same checks for every device.
#pragma once

#include "tensor/device.hpp"

namespace tasuki::testing {

// Functions of one value, and their slopes.
void check_extreme_maps(Device device);
// Gradients of functions of two values, and of the largest one of an axis.
void check_extreme_pairs(Device device);
// Softmax, its logarithm, and cross entropy, of rows and of columns.
void check_extreme_scores(Device device);
// Losses of each element.
void check_extreme_losses(Device device);
// Statistics of channels whose mean is far from 0, and of those with an outlier.
void check_extreme_batches(Device device);

}  // namespace tasuki::testing
