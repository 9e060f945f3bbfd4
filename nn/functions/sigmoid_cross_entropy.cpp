#include "nn/functions/loss.hpp"

#include <utility>

#include "nn/function.hpp"
#include "tensor/backend.hpp"
#include "tensor/loss_operations.hpp"

namespace tasuki::functions {
namespace {

class SigmoidCrossEntropy final : public Function {
 public:
  SigmoidCrossEntropy(CountedLoss forward, Tensor x, Tensor t, std::int64_t ignored_label)
      : forward_(std::move(forward)),
        x_(std::move(x)),
        t_(std::move(t)),
        ignored_label_(ignored_label) {}
  const char* name() const override { return "sigmoid_cross_entropy"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device())
                         .losses()
                         .sigmoid_cross_entropy_backward(forward_, x_, t_, ignored_label_, dy));
  }

 private:
  CountedLoss forward_;
  Tensor x_, t_;
  std::int64_t ignored_label_;
};

}  // namespace

Variable sigmoid_cross_entropy(const Variable& x, const Tensor& t, std::int64_t ignored_label) {
  TASUKI_CHECK(x.shape() == t.shape(),
               "sigmoid_cross_entropy: scores of {} and targets of {} do "
               "not fit",
               x.shape().text(), t.shape().text());
  TASUKI_CHECK(
      t.dtype() == DType::float32 || t.dtype() == DType::int32 || t.dtype() == DType::int64,
      "sigmoid_cross_entropy: expected targets of float32, int32 or int64, found {}",
      name_of(t.dtype()));
  CountedLoss forward =
      backend(x.value().device()).losses().sigmoid_cross_entropy(x.value(), t, ignored_label);
  const Tensor loss = forward.loss;
  return Function::record(loss, {x}, [&] {
    return std::make_unique<SigmoidCrossEntropy>(std::move(forward), x.value(), t, ignored_label);
  });
}

}  // namespace tasuki::functions
