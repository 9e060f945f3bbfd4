// The loss of classification.
#pragma once

#include <cstdint>

#include "nn/variable.hpp"

namespace tasuki {

struct SoftmaxCrossEntropyOptions {
  int axis = 1;                     // of the classes; -1: the last one
  std::int64_t ignored_label = -1;  // of positions that do not count
  // In [0, 1): the target is 1 - label_smoothing at the label, plus label_smoothing / C everywhere.
  float label_smoothing = 0;
  // One for each class, float32: factors of the classes' parts of the loss (Chainer's
  // class_weight). They do not change the number that the sum is divided by. Undefined: all 1.
  Tensor class_weights = {};
};

// Mean over the positions that count of -log softmax(x)[t]. x: scores, N x C, or of any shape with
// the classes on `axis` (N x C x H x W, N x T x C with axis -1); t: labels, int32 or int64, of x's
// shape without that axis, in 0 .. C-1 or the ignored one. A scalar; 0 if no position counts.
//   The mean over several ranks is that over all positions that count if the data set names the
// label (Field::ignored_label). A loop of your own passes the number of those that count to the
// optimizer instead of the number of examples.
Variable softmax_cross_entropy(const Variable& x, const Tensor& t,
                               const SoftmaxCrossEntropyOptions& options = {});

}  // namespace tasuki
