#include "nn/functions/connection.hpp"

#include "nn/functions/arrays.hpp"
#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

class Linear final : public Function {
 public:
  // `y` is kept only with ReLU, for its signs.
  Linear(Tensor x, Tensor w, Tensor y) : x_(std::move(x)), w_(std::move(w)), y_(std::move(y)) {}
  const char* name() const override { return "linear"; }

  void backward(const Tensor& upstream, Gradients& gradients) override {
    Backend& device = backend(upstream.device());
    const Tensor dy = y_ ? device.unary_backward(Unary::relu, y_, upstream, 0) : upstream;
    backward_of_weighted(
        dy, w_.shape(), gradients,
        [&](const Tensor& dw, bool accumulate, const Tensor& db) {
          device.linear_backward_weights(x_, dy, dw, accumulate, db);
        },
        [&] { return device.linear_backward_data(dy, w_); });
  }

 private:
  Tensor x_, w_, y_;
};

}  // namespace

Variable linear(const Variable& input, const Variable& w, const Variable& b, bool relu) {
  const Variable x = input.shape().rank() == 2 ? input : flatten(input);
  const DType type = x.value().dtype();
  const Tensor weights = w.value_as(type);
  Tensor y = backend(x.value().device()).linear(x.value(), weights, b.value_as(type), relu);
  return Function::record(y, {x, w, b}, [&] {
    return std::make_unique<Linear>(x.value(), weights, relu ? y : Tensor());
  });
}

}  // namespace tasuki::functions
