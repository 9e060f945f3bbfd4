#include "nn/functions/loss.hpp"

#include <utility>

#include "nn/function.hpp"
#include "tensor/backend.hpp"
#include "tensor/loss_operations.hpp"

namespace tasuki::functions {
namespace {

// For N x C scores and plain labels, in fewer passes.
class SoftmaxCrossEntropy final : public Function {
 public:
  SoftmaxCrossEntropy(CrossEntropyResult forward, Tensor t)
      : forward_(std::move(forward)), t_(std::move(t)) {}
  const char* name() const override { return "softmax_cross_entropy"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).softmax_cross_entropy_backward(forward_, t_, dy));
  }

 private:
  CrossEntropyResult forward_;
  Tensor t_;
};

class GeneralCrossEntropy final : public Function {
 public:
  GeneralCrossEntropy(CountedLoss forward, ClassScores scores, CrossEntropySettings settings)
      : forward_(std::move(forward)), scores_(std::move(scores)), settings_(std::move(settings)) {}
  const char* name() const override { return "softmax_cross_entropy"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device())
                         .losses()
                         .softmax_cross_entropy_backward(forward_, scores_, settings_, dy));
  }

 private:
  CountedLoss forward_;
  ClassScores scores_;
  CrossEntropySettings settings_;
};

ClassScores scores_of(const Tensor& x, const Tensor& t, int axis) {
  const Shape& shape = x.shape();
  const int at = axis < 0 ? axis + shape.rank() : axis;
  TASUKI_CHECK(0 <= at && at < shape.rank(), "softmax_cross_entropy: scores of {} have no axis {}",
               shape.text(), axis);
  ClassScores scores{x, t, 1, shape[at], 1};
  std::vector<std::int64_t> rest;
  for (int i = 0; i < shape.rank(); ++i) {
    if (i != at) rest.push_back(shape[i]);
    if (i < at) scores.outer *= shape[i];
    if (i > at) scores.inner *= shape[i];
  }
  TASUKI_CHECK(t.shape() == Shape(rest) && scores.classes > 0,
               "softmax_cross_entropy: scores of {} with classes on axis {} and labels of {} do "
               "not fit",
               shape.text(), at, t.shape().text());
  return scores;
}

// On a GPU, reading scores again takes less time than keeping the probabilities of many classes.
bool keeps_probabilities(const Tensor& x) {
  constexpr std::int64_t many_classes = 1024;
  return x.shape().rank() == 2 && (x.device().is_cpu() || x.shape()[1] < many_classes);
}

// `accuracy`: null if it is not wanted.
Variable plain_cross_entropy(const Variable& x, const Tensor& t, AccuracyResult* accuracy) {
  CrossEntropyResult forward =
      backend(x.value().device()).softmax_cross_entropy(x.value(), t, accuracy);
  const Tensor loss = forward.loss;
  return Function::record(
      loss, {x}, [&] { return std::make_unique<SoftmaxCrossEntropy>(std::move(forward), t); });
}

}  // namespace

Variable softmax_cross_entropy(const Variable& x, const Tensor& t,
                               const SoftmaxCrossEntropyOptions& options) {
  TASUKI_CHECK(0 <= options.label_smoothing && options.label_smoothing < 1,
               "softmax_cross_entropy: label_smoothing {} is not in [0, 1)",
               options.label_smoothing);
  const bool is_plain = options.ignored_label == -1 && options.label_smoothing == 0 &&
                        !options.class_weights && (options.axis == 1 || options.axis == -1);
  if (is_plain && keeps_probabilities(x.value())) return plain_cross_entropy(x, t, nullptr);
  ClassScores scores = scores_of(x.value(), t, options.axis);
  TASUKI_CHECK(!options.class_weights || (options.class_weights.shape() == Shape{scores.classes} &&
                                          options.class_weights.dtype() == DType::float32),
               "softmax_cross_entropy: expected {} class weights of float32, found {} of {}",
               scores.classes, options.class_weights.shape().text(),
               name_of(options.class_weights.dtype()));
  CrossEntropySettings settings{options.ignored_label, options.label_smoothing,
                                options.class_weights};
  if (settings.class_weights) settings.class_weights = settings.class_weights.to(t.device());
  CountedLoss forward =
      backend(x.value().device()).losses().softmax_cross_entropy(scores, settings);
  const Tensor loss = forward.loss;
  return Function::record(loss, {x}, [&] {
    return std::make_unique<GeneralCrossEntropy>(std::move(forward), std::move(scores),
                                                 std::move(settings));
  });
}

AccuracyResult count_correct(const Variable& x, const Tensor& t) {
  return backend(x.value().device()).count_correct(x.value(), t);
}

LossAndAccuracy loss_and_accuracy(const Variable& x, const Tensor& t) {
  if (!keeps_probabilities(x.value())) return {softmax_cross_entropy(x, t), count_correct(x, t)};
  AccuracyResult accuracy;
  const Variable loss = plain_cross_entropy(x, t, &accuracy);
  return {loss, accuracy};
}

double accuracy(const Variable& x, const Tensor& t) {
  const auto [correct, counted] = count_correct(x, t);
  return correct.item() / counted.item();  // 0 / 0 is NaN
}

}  // namespace tasuki::functions
