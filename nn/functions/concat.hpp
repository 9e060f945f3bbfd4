// Joins values along an axis.
#pragma once

#include <vector>

#include "nn/variable.hpp"

namespace tasuki {

// All shapes are equal except along `axis`, where sizes add up. Axis 1 joins channels;
// negative axes count from the last.
Variable concat(const std::vector<Variable>& parts, int axis = 1);

}  // namespace tasuki
