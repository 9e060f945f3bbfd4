// Sums, means and extremes over axes.
#pragma once

#include <vector>

#include "nn/variable.hpp"

namespace tasuki {

// Over these axes (negative ones count from the last), by default over all. The axes are left out
// of the result's shape, or have size 1 in it with `keepdims`.
Variable sum(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
Variable mean(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
// The largest and the smallest element, NaN if there is one. All elements that are equal to it get
// its gradient.
Variable max(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
Variable min(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);

}  // namespace tasuki
