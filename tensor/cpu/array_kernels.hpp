// Loops over whole axes of plain arrays.
#pragma once

#include "tensor/array_operations.hpp"
#include "tensor/reduction_plan.hpp"

namespace tasuki {

// Copies between plain arrays and views of them, for elements of any type.
void copy_from_view(const View& view, const Tensor& source, const Tensor& to);
void copy_to_view(const View& view, const Tensor& destination, const Tensor& from);

// y (outer x inner) = the reduction of x (outer x length x inner); sizes are positive. Long axes
// are reduced in pieces of a length that depends on the sizes only, so results do not depend on the
// number of threads, and sums of n values have errors that grow little with n.
void reduce_axis(Reduction op, const AxisReduction& pass, const float* x, float* y);

}  // namespace tasuki
