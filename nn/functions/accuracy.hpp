// The share of right answers; a figure for people, without a gradient.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// Number of rows of x (N x C scores) whose largest element is at the label; the first of equal ones
// is the answer. t: N labels, int32 or int64; -1 is never right. An int64 scalar on x's device,
// which nobody waits for.
Tensor count_correct(const Variable& x, const Tensor& t);
// count_correct over the number of labels that are not -1; NaN when there are none.
double accuracy(const Variable& x, const Tensor& t);

}  // namespace tasuki
