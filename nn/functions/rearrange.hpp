// Elements of an array in another order, some of them, or repeated. Axes that are negative count
// from the last.
#pragma once

#include <limits>
#include <utility>
#include <vector>

#include "nn/variable.hpp"

namespace tasuki {

// Repeats axes of size 1, and the whole along new axes in front.
Variable broadcast_to(const Variable& x, const Shape& shape);
// Axis i of the result is axes[i] of x; by default, the order of the axes is reversed.
Variable transpose(const Variable& x, const std::vector<int>& axes = {});

// Elements [begin, end) of an axis; negative ends count from the axis's end. All of it by default.
struct AxisRange {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};
// A range of each axis; the axes that are not listed are kept whole: slice(x, {{}, {2, -1}}) is
// NumPy's x[:, 2:-1]. Ends beyond the axis are taken for its end.
Variable slice(const Variable& x, const std::vector<AxisRange>& ranges);
// The part at one place of an axis, which the result does not have: get_item(x, 3) is NumPy's x[3].
Variable get_item(const Variable& x, std::int64_t index, int axis = 0);

// Equal parts, which must be possible, or the parts between these places of the axis (Chainer's
// split_axis). The parts' gradients are written into one array.
std::vector<Variable> split(const Variable& x, int parts, int axis = 0);
std::vector<Variable> split_at(const Variable& x, const std::vector<std::int64_t>& places,
                               int axis = 0);
// The items of an axis, which they do not have: the inverse of stack().
std::vector<Variable> separate(const Variable& x, int axis = 0);
// Values of equal shapes along a new axis.
Variable stack(const std::vector<Variable>& parts, int axis = 0);

// Elements before and after those of an axis.
struct AxisPadding {
  std::int64_t before = 0, after = 0;
};
// The axes that are not listed are not padded.
Variable pad(const Variable& x, const std::vector<AxisPadding>& widths, float value = 0);

// A new axis of size 1 at this place of the result's shape, and its inverse.
Variable expand_dims(const Variable& x, int axis);
Variable squeeze(const Variable& x, int axis);

}  // namespace tasuki
