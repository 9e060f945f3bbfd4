// Softmax over an axis.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// exp(x) divided by its sum over the axis; negative axes count from the last one (Chainer's
// F.softmax and F.log_softmax). The last axis is the fastest.
Variable softmax(const Variable& x, int axis = 1);
// The logarithm of that, which is exact where softmax(x) would round to 0.
Variable log_softmax(const Variable& x, int axis = 1);

}  // namespace tasuki
