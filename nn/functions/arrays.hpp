// Functions of whole arrays: reductions, matrix products, rearranging and reshaping. Negative axes
// count from the last.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "nn/variable.hpp"

namespace tasuki::functions {

// Reductions over these axes, by default over all. The result's shape lacks these axes, or with
// `keepdims` has them with size 1.
Variable sum(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
Variable mean(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
// The largest and the smallest element, or NaN if there is one. Every element equal to the result
// gets its gradient.
Variable max(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);
Variable min(const Variable& x, const std::vector<int>& axes = {}, bool keepdims = false);

// op(a) op(b) for the matrices in the last two axes (m x k and k x n), where op transposes on
// request. The leading axes are the same in both, or one operand is a single matrix, used with each
// matrix of the other: N x T x I times I x O is N x T x O.
Variable matmul(const Variable& a, const Variable& b, bool transpose_a = false,
                bool transpose_b = false);

// The same elements, in row-major order, in another shape with as many elements.
Variable reshape(const Variable& x, const Shape& shape);
// N x ... to N x (product of the rest).
Variable flatten(const Variable& x);
// Inserts an axis of size 1 at this position of the result's shape; squeeze is the inverse.
Variable expand_dims(const Variable& x, int axis);
Variable squeeze(const Variable& x, int axis);

// Repeats axes of size 1, and the whole array along new leading axes.
Variable broadcast_to(const Variable& x, const Shape& shape);
// Axis i of the result is axes[i] of x; by default, the order of the axes is reversed.
Variable transpose(const Variable& x, const std::vector<int>& axes = {});

// Elements [begin, end) of an axis; negative ends count from the axis's end. All of it by default.
struct AxisRange {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};
// A range of each axis; axes that are not listed are kept whole: slice(x, {{}, {2, -1}}) is NumPy's
// x[:, 2:-1]. Ends beyond the axis mean its end.
Variable slice(const Variable& x, const std::vector<AxisRange>& ranges);
// The elements at one index of an axis, which the result lacks: get_item(x, 3) is NumPy's x[3].
Variable get_item(const Variable& x, std::int64_t index, int axis = 0);

// Splits an axis into equal parts (the size must be divisible), or at these indices (Chainer's
// split_axis). The parts' gradients are written into one array.
std::vector<Variable> split(const Variable& x, int parts, int axis = 0);
std::vector<Variable> split_at(const Variable& x, const std::vector<std::int64_t>& places,
                               int axis = 0);
// The items along an axis, each without that axis: the inverse of stack().
std::vector<Variable> separate(const Variable& x, int axis = 0);

// Joins values along an axis; all other sizes must be equal. Axis 1 joins channels.
Variable concat(const std::vector<Variable>& parts, int axis = 1);
// Joins values of equal shapes along a new axis.
Variable stack(const std::vector<Variable>& parts, int axis = 0);

// Elements to add before and after an axis.
struct AxisPadding {
  std::int64_t before = 0, after = 0;
};
// Axes that are not listed are not padded.
Variable pad(const Variable& x, const std::vector<AxisPadding>& widths, float value = 0);

}  // namespace tasuki::functions
