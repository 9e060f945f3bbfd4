#include "nn/functions/loss.hpp"

#include <utility>

#include "nn/function.hpp"
#include "tensor/backend.hpp"
#include "tensor/loss_operations.hpp"

namespace tasuki::functions {
namespace {

class HuberLoss final : public Function {
 public:
  HuberLoss(Tensor x, Tensor t, float delta) : x_(std::move(x)), t_(std::move(t)), delta_(delta) {}
  const char* name() const override { return "huber_loss"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).losses().huber_backward(x_, t_, delta_, dy));
  }

 private:
  Tensor x_, t_;
  float delta_;
};

}  // namespace

Variable huber_loss(const Variable& x, const Tensor& t, float delta) {
  TASUKI_CHECK(x.shape() == t.shape(), "huber_loss: values of {} and targets of {} do not fit",
               x.shape().text(), t.shape().text());
  TASUKI_CHECK(t.dtype() == DType::float32, "huber_loss: expected targets of float32, found {}",
               name_of(t.dtype()));
  TASUKI_CHECK(delta > 0, "huber_loss: expected a delta above 0, found {}", delta);
  const Tensor loss = backend(x.value().device()).losses().huber(x.value(), t, delta).loss;
  return Function::record(loss, {x},
                          [&] { return std::make_unique<HuberLoss>(x.value(), t, delta); });
}

}  // namespace tasuki::functions
