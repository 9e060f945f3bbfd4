#include "tensor/reduction_plan.hpp"

#include "core/error.hpp"

namespace tasuki {

ReductionPlan::ReductionPlan(Reduction op, const Shape& x, AxisSet axes) : shape(x) {
  TASUKI_CHECK(axes >> x.rank() == 0, "reduction: an axis beyond those of a shape {}", x.text());
  const auto is_reduced = [&](int axis) { return (axes >> axis & 1U) != 0; };
  for (int axis = 0; axis < x.rank(); ++axis)
    if (is_reduced(axis)) shape[axis] = 1;
  TASUKI_CHECK(op == Reduction::sum || x.count() > 0 || shape.count() == 0,
               "reduction: the largest of no elements, in an array of {}", x.text());
  if (x.count() == 0) return;
  // From the last reduced axis to the first, neighbours together: the first pass reads all elements
  // in order and leaves few.
  std::int64_t inner = 1, before = x.count();
  for (int axis = x.rank(); axis-- > 0;) {
    before /= x[axis];
    if (!is_reduced(axis)) {
      inner *= x[axis];
      continue;
    }
    std::int64_t length = x[axis];
    for (; axis > 0 && (is_reduced(axis - 1) || x[axis - 1] == 1); --axis) {
      length *= x[axis - 1];
      before /= x[axis - 1];
    }
    if (length > 1) passes.push_back({before, length, inner});
  }
}

}  // namespace tasuki
