// How a reduction over any axes becomes reductions of a middle axis.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/array_operations.hpp"

namespace tasuki {

// outer x length x inner to outer x inner.
struct AxisReduction {
  std::int64_t outer = 1, length = 1, inner = 1;
};

struct ReductionPlan {
  Shape shape;                        // of the result, reduced axes with size 1
  std::vector<AxisReduction> passes;  // one after the other, each on the result of the one before
  // An error if an axis does not exist, or the largest of nothing is asked for.
  ReductionPlan(Reduction op, const Shape& x, AxisSet axes);
};

}  // namespace tasuki
