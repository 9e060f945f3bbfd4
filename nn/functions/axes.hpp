// Axes as arguments of functions.
#pragma once

#include <vector>

#include "tensor/array_operations.hpp"

namespace tasuki {

// An axis of a shape; negative ones count from the last. An error names the function.
int checked_axis(int axis, const Shape& shape, const char* what);
// Distinct axes of a shape; none stand for all.
AxisSet checked_axes(const std::vector<int>& axes, const Shape& shape, const char* what);

}  // namespace tasuki
