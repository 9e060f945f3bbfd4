// The share of correct answers, a metric without a gradient.
#pragma once

#include "nn/variable.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

// Rows of x (N x C scores) whose largest element is at the label (among equal ones the first
// counts), and rows that have a label. t: N labels, int32 or int64, -1 for rows without one. Two
// int64 scalars on x's device, as Observation::add_sum() takes them; does not wait for the device.
AccuracyResult count_correct(const Variable& x, const Tensor& t);
// `correct` over `counted`; NaN if no row has a label.
double accuracy(const Variable& x, const Tensor& t);

}  // namespace tasuki
