// Losses, float32 scalars: the mean over what counts in a batch, as a loss function returns it, and
// 0 if nothing counts. Targets have no gradient. And the share of correct answers, which has none.
#pragma once

#include <cstdint>

#include "nn/variable.hpp"
#include "tensor/backend.hpp"

namespace tasuki::functions {

struct SoftmaxCrossEntropyOptions {
  int axis = 1;                     // of the classes; -1: the last one
  std::int64_t ignored_label = -1;  // of positions that do not count
  // In [0, 1): the target is 1 - label_smoothing at the label, plus label_smoothing / C everywhere.
  float label_smoothing = 0;
  // One for each class, float32: factors of the classes' parts of the loss (Chainer's
  // class_weight). They do not change the number that the sum is divided by. Undefined: all 1.
  Tensor class_weights = {};
};

// Classification: mean over the positions that count of -log softmax(x)[t]. x: scores, N x C, or of
// any shape with the classes on `axis` (N x C x H x W, N x T x C with axis -1); t: labels, int32 or
// int64, of x's shape without that axis, in 0 .. C-1 or the ignored one.
//   The mean over several ranks is taken over all positions that count if the data set names the
// label (Field::ignored_label). A loop of your own passes the number of those that count to the
// optimizer instead of the number of examples.
Variable softmax_cross_entropy(const Variable& x, const Tensor& t,
                               const SoftmaxCrossEntropyOptions& options = {});

// Questions with two answers: mean over the elements that count of -t log s - (1 - t) log(1 - s)
// with s = sigmoid(x). t has x's shape: float32 probabilities, which all count, or labels 0 and 1
// (int32 or int64), of which the ignored one does not count. For several ranks see
// softmax_cross_entropy.
Variable sigmoid_cross_entropy(const Variable& x, const Tensor& t, std::int64_t ignored_label = -1);

// Regression: mean of (y - t)^2 over all elements. t has y's shape.
Variable mean_squared_error(const Variable& y, const Tensor& t);

// Regression that outliers move less: mean over all elements of d^2 / 2 where |d| <= delta, and of
// delta (|d| - delta / 2) elsewhere, with d = x - t. t: float32, of x's shape.
Variable huber_loss(const Variable& x, const Tensor& t, float delta = 1);

// Rows of x (N x C scores) whose largest element is at the label (among equal ones the first
// counts), and rows that have a label. t: N labels, int32 or int64, -1 for rows without one. Two
// int64 scalars on x's device, as Observation::add_sum() takes them; does not wait for the device.
AccuracyResult count_correct(const Variable& x, const Tensor& t);
// `correct` over `counted`; NaN if no row has a label.
double accuracy(const Variable& x, const Tensor& t);

}  // namespace tasuki::functions
