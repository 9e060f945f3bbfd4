#include "nn/functions/activation.hpp"

#include "nn/call_recorder.hpp"
#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

// Their slopes follow from their outputs, so inputs need not be kept.
class Activation final : public Function {
 public:
  Activation(Unary op, Tensor y, float slope) : op_(op), y_(std::move(y)), slope_(slope) {}

  const char* name() const override {
    switch (op_) {
      case Unary::relu:
        return "relu";
      case Unary::leaky_relu:
        return "leaky_relu";
      case Unary::sigmoid:
        return "sigmoid";
      case Unary::tanh:
        return "tanh";
    }
    return "activation";
  }

  void describe(CallSettings& settings) const override {
    settings.set("slope", static_cast<double>(slope_));
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).unary_backward(op_, y_, dy, slope_));
  }

 private:
  Unary op_;
  Tensor y_;
  float slope_;
};

Variable apply(Unary op, const Variable& x, float slope = 0) {
  const Tensor y = backend(x.value().device()).unary(op, x.value(), slope);
  return Function::record(y, {x}, [&] { return std::make_unique<Activation>(op, y, slope); });
}

}  // namespace

Variable relu(const Variable& x) {
  return apply(Unary::relu, x);
}

Variable leaky_relu(const Variable& x, float slope) {
  TASUKI_CHECK(slope >= 0, "leaky_relu: the slope {} is negative", slope);
  return apply(Unary::leaky_relu, x, slope);
}

Variable sigmoid(const Variable& x) {
  return apply(Unary::sigmoid, x);
}

Variable tanh(const Variable& x) {
  return apply(Unary::tanh, x);
}

Variable gelu(const Variable& x, bool approximate) {
  return mapped("gelu", approximate ? Map::gelu_tanh : Map::gelu, x);
}

Variable silu(const Variable& x) {
  return mapped("silu", Map::silu, x);
}

Variable elu(const Variable& x, float alpha) {
  return mapped("elu", Map::elu, x, alpha);
}

Variable softplus(const Variable& x, float beta) {
  TASUKI_CHECK(beta != 0, "softplus: beta is 0");
  return mapped("softplus", Map::softplus, x, beta);
}

}  // namespace tasuki::functions
