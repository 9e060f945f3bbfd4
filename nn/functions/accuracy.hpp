// The share of correct answers, a metric without a gradient.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// Number of rows of x (N x C scores) whose largest element is at the label; among equal ones the
// first counts. t: N labels, int32 or int64; -1 never matches. An int64 scalar on x's device; does
// not wait for the device.
Tensor count_correct(const Variable& x, const Tensor& t);
// count_correct over the number of labels that are not -1; NaN if there are none.
double accuracy(const Variable& x, const Tensor& t);

}  // namespace tasuki
