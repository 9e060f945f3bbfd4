// Reductions of float32 arrays along a middle axis.
#pragma once

#include "tensor/reduction_plan.hpp"

namespace tasuki {

// y (outer x inner) = the reduction of x (outer x length x inner); sizes are positive. Long axes
// are reduced in pieces of a length that depends on the sizes only, so results do not depend on the
// number of threads, and sums of n values have errors that grow little with n.
void reduce_axis(Reduction op, const AxisReduction& pass, const float* x, float* y);

}  // namespace tasuki
