#include "nn/functions/axes.hpp"

#include "core/error.hpp"

namespace tasuki {

int checked_axis(int axis, const Shape& shape, const char* what) {
  const int found = axis < 0 ? axis + shape.rank() : axis;
  TASUKI_CHECK(found >= 0 && found < shape.rank(), "{}: an array of {} has no axis {}", what,
               shape.text(), axis);
  return found;
}

AxisSet checked_axes(const std::vector<int>& axes, const Shape& shape, const char* what) {
  if (axes.empty()) return (AxisSet{1} << shape.rank()) - 1;
  AxisSet set = 0;
  for (const int axis : axes) {
    const AxisSet bit = AxisSet{1} << checked_axis(axis, shape, what);
    TASUKI_CHECK((set & bit) == 0, "{}: axis {} of {} is named twice", what, axis, shape.text());
    set |= bit;
  }
  return set;
}

}  // namespace tasuki
