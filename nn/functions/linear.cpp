#include "tasuki/nn/functions/linear.hpp"

#include "tasuki/nn/function.hpp"
#include "tasuki/nn/functions/reshape.hpp"
#include "tasuki/tensor/backend.hpp"

namespace tasuki {
namespace {

class Linear final : public Function {
 public:
  Linear(Tensor x, Tensor w) : x_(std::move(x)), w_(std::move(w)) {}
  const char* name() const override { return "linear"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    // Parameters first: their exchange can start while the rest is computed.
    if (gradients.needed(2)) {
      const auto [db, accumulate] = gradients.into(2, Shape{w_.shape()[0]});
      device.backward_bias(dy, db, accumulate);
    }
    if (gradients.needed(1)) {
      const auto [dw, accumulate] = gradients.into(1, w_.shape());
      device.linear_backward_weights(x_, dy, dw, accumulate);
    }
    if (gradients.needed(0)) gradients.add(0, device.linear_backward_data(dy, w_));
  }

 private:
  Tensor x_, w_;
};

}  // namespace

Variable linear(const Variable& input, const Variable& w, const Variable& b) {
  const Variable x = input.shape().rank() == 2 ? input : flatten(input);
  Tensor y = backend(x.value().device()).linear(x.value(), w.value(), b.value());
  return Function::record(std::move(y), {x, w, b},
                          [&] { return std::make_unique<Linear>(x.value(), w.value()); });
}

}  // namespace tasuki
