// The loss of questions with two answers.
#pragma once

#include <cstdint>

#include "nn/variable.hpp"

namespace tasuki {

// Mean over the elements that count of -t log s - (1 - t) log(1 - s) with s = sigmoid(x). t has x's
// shape: float32 probabilities, which all count, or labels 0 and 1 (int32 or int64), of which the
// ignored one does not count. A scalar; 0 if nothing counts. For several ranks see
// softmax_cross_entropy.
Variable sigmoid_cross_entropy(const Variable& x, const Tensor& t, std::int64_t ignored_label = -1);

}  // namespace tasuki
