#include "tasuki/nn/functions/linear.hpp"

#include "tasuki/nn/functions/reshape.hpp"
#include "tasuki/nn/functions/weighted.hpp"

namespace tasuki {
namespace {

class Linear final : public Function {
 public:
  Linear(Tensor x, Tensor w) : x_(std::move(x)), w_(std::move(w)) {}
  const char* name() const override { return "linear"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    backward_of_weighted(
        dy, w_.shape(), gradients,
        [&](const Tensor& dw, bool accumulate) {
          device.linear_backward_weights(x_, dy, dw, accumulate);
        },
        [&] { return device.linear_backward_data(dy, w_); });
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
