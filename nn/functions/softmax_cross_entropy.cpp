#include "tasuki/nn/functions/softmax_cross_entropy.hpp"

#include "tasuki/nn/function.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

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

}  // namespace

Variable softmax_cross_entropy(const Variable& x, const Tensor& t) {
  CrossEntropyResult forward = backend(x.value().device()).softmax_cross_entropy(x.value(), t);
  const Tensor loss = forward.loss;
  return Function::record(
      loss, {x}, [&] { return std::make_unique<SoftmaxCrossEntropy>(std::move(forward), t); });
}

}  // namespace tasuki
