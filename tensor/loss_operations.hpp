// LossOperations: mean losses other than softmax cross entropy of plain labels (backend.hpp). The
// conventions of backend.hpp hold. Losses are float32 scalars: sums in double, divided by the
// number of elements that count; 0 if there are none.
#pragma once

#include <cstdint>

#include "tensor/tensor.hpp"

namespace tasuki {

// Scores x, seen as outer x classes x inner, and outer * inner labels (int32 or int64).
struct ClassScores {
  Tensor x, labels;
  std::int64_t outer = 0, classes = 0, inner = 1;
};

struct CrossEntropySettings {
  std::int64_t ignored_label = -1;  // of positions that do not count
  // The target is 1 - smoothing at the label, plus smoothing / classes at every class.
  float smoothing = 0;
  Tensor class_weights = {};  // of each class, float32 on the device of x; undefined: all 1
};

struct CountedLoss {
  Tensor loss;     // the mean over what counts
  Tensor counted;  // int64 scalar
  Tensor saved;    // for the backward pass
};

class LossOperations {
 public:
  virtual ~LossOperations() = default;

  // With the target q of a position, p = softmax(x) and the classes' weights w: the mean of
  // -sum_c w_c q_c log p_c over the positions that count, whatever their weights. On CPUs a label
  // that is neither a class nor the ignored one is an error of kind data; on GPUs the loss is NaN.
  virtual CountedLoss softmax_cross_entropy(const ClassScores& scores,
                                            const CrossEntropySettings& settings) = 0;
  // dx of the mean, times the scalar dy.
  virtual Tensor softmax_cross_entropy_backward(const CountedLoss& forward,
                                                const ClassScores& scores,
                                                const CrossEntropySettings& settings,
                                                const Tensor& dy) = 0;

  // Mean of -t log s - (1 - t) log(1 - s), s = 1 / (1 + exp(-x)). t has x's shape: float32 targets,
  // which all count, or int32 or int64 labels 0 and 1; `ignored_label` does not count. On CPUs
  // another label is an error of kind data; on GPUs the loss is NaN.
  virtual CountedLoss sigmoid_cross_entropy(const Tensor& x, const Tensor& t,
                                            std::int64_t ignored_label) = 0;
  virtual Tensor sigmoid_cross_entropy_backward(const CountedLoss& forward, const Tensor& x,
                                                const Tensor& t, std::int64_t ignored_label,
                                                const Tensor& dy) = 0;

  // Mean of d^2 / 2 where |d| <= delta and of delta (|d| - delta / 2) elsewhere, d = x - t. t is
  // float32 of x's shape; `counted` and `saved` are undefined.
  virtual CountedLoss huber(const Tensor& x, const Tensor& t, float delta) = 0;
  virtual Tensor huber_backward(const Tensor& x, const Tensor& t, float delta,
                                const Tensor& dy) = 0;
};

}  // namespace tasuki
