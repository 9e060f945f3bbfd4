// Losses, and the share of correct answers. A loss is a float32 scalar: the mean over all positions
// or elements of a batch that count, and 0 if none does. Targets have no gradient, nor has the
// share of correct answers.
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
  // A factor for each class's part of the loss, float32 (Chainer's class_weight). It does not
  // change the divisor of the mean. Undefined: all 1.
  Tensor class_weights = {};
};

// Classification: the mean of -log softmax(x)[t] over the positions that count. x: scores, N x C,
// or of any shape with the classes on `axis` (N x C x H x W, N x T x C with axis -1); t: labels,
// int32 or int64, of x's shape without that axis, in 0 .. C-1 or the ignored one.
//   Over several ranks, the mean is over all positions that count if the data set names the label
//   (Field::ignored_label). A loop of your own passes the optimizer the number of positions that
//   count instead of the number of examples.
Variable softmax_cross_entropy(const Variable& x, const Tensor& t,
                               const SoftmaxCrossEntropyOptions& options = {});

// Binary classification: the mean of -t log s - (1 - t) log(1 - s), with s = sigmoid(x), over the
// elements that count. t has x's shape: float32 probabilities, which all count, or labels 0 and 1
// (int32 or int64); elements with the ignored label do not count. For several ranks see
// softmax_cross_entropy.
Variable sigmoid_cross_entropy(const Variable& x, const Tensor& t, std::int64_t ignored_label = -1);

// Regression: mean of (y - t)^2 over all elements. t has y's shape.
Variable mean_squared_error(const Variable& y, const Tensor& t);

// Regression less sensitive to outliers: the mean over all elements of d^2 / 2 where |d| <= delta
// and delta (|d| - delta / 2) elsewhere, with d = x - t. t: float32, of x's shape.
Variable huber_loss(const Variable& x, const Tensor& t, float delta = 1);

// Counts the rows of x (N x C scores) whose largest element (the first, among equal ones) is at the
// label, and the rows that have a label. t: N labels, int32 or int64, -1 for rows without one. Two
// int64 scalars on x's device, as Observation::add_sum() takes them; does not wait for the device.
AccuracyResult count_correct(const Variable& x, const Tensor& t);
// softmax_cross_entropy(x, t) and count_correct(x, t), which together take a GPU less time.
struct LossAndAccuracy {
  Variable loss;
  AccuracyResult accuracy;
};
LossAndAccuracy loss_and_accuracy(const Variable& x, const Tensor& t);
// `correct` over `counted`; NaN if no row has a label.
double accuracy(const Variable& x, const Tensor& t);

}  // namespace tasuki::functions
