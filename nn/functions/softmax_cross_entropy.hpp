// The loss of classification.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// Mean over the examples of -log softmax(x)[t]. x: N x C scores; t: N labels, int32 or int64, in 0
// .. C-1, or -1 for examples that do not count. A scalar; 0 if no example counts. A training loop
// that has such examples passes the number of those that count to the optimizer; data sets refuse
// such labels.
Variable softmax_cross_entropy(const Variable& x, const Tensor& t);

}  // namespace tasuki
