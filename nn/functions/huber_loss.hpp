// The loss of regression that outliers move less.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// Mean over all elements of d^2 / 2 where |d| <= delta, and of delta (|d| - delta / 2) elsewhere,
// with d = x - t: a scalar; 0 without elements. t: float32 targets of x's shape, without gradient.
Variable huber_loss(const Variable& x, const Tensor& t, float delta = 1);

}  // namespace tasuki
