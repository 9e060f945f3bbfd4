// Functions of whole arrays: reductions, products, and their elements in another order or shape.
// Axes that are negative count from the last.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "nn/variable.hpp"

namespace tasuki::functions {

// Reductions over these axes, by default over all. The axes are left out of the result's shape, or
// have size 1 in it with `keepdims`.
Variable sum(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
Variable mean(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
// The largest and the smallest element, NaN if there is one. All elements that are equal to it get
// its gradient.
Variable max(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
Variable min(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);

// op(a) op(b) for the matrices in the last two axes (m x k and k x n), where op transposes them if
// so asked. The axes before are the same in both, or one operand is a single matrix, which meets
// all of the other's: N x T x I times I x O is N x T x O.
Variable matmul(const Variable& a, const Variable& b, bool transpose_a = false,
                bool transpose_b = false);

// The same elements, in row-major order, under another shape of as many elements.
Variable reshape(const Variable& x, const Shape& shape);
// N x ... to N x (product of the rest).
Variable flatten(const Variable& x);
// A new axis of size 1 at this place of the result's shape, and its inverse.
Variable expand_dims(const Variable& x, int axis);
Variable squeeze(const Variable& x, int axis);

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

// Joins values along an axis, where sizes add up; all other sizes are equal. Axis 1 joins channels.
Variable concat(const std::vector<Variable>& parts, int axis = 1);
// Values of equal shapes along a new axis.
Variable stack(const std::vector<Variable>& parts, int axis = 0);

// Elements before and after those of an axis.
struct AxisPadding {
  std::int64_t before = 0, after = 0;
};
// The axes that are not listed are not padded.
Variable pad(const Variable& x, const std::vector<AxisPadding>& widths, float value = 0);

}  // namespace tasuki::functions
