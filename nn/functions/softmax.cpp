#include "nn/functions/activation.hpp"

#include "nn/call_recorder.hpp"
#include "nn/functions/building_blocks.hpp"
#include "tensor/normalization_operations.hpp"

namespace tasuki::functions {
namespace {

class Softmax final : public Function {
 public:
  Softmax(Tensor y, int axis, bool logarithm)
      : y_(std::move(y)), axis_(axis), logarithm_(logarithm) {}
  const char* name() const override { return logarithm_ ? "log_softmax" : "softmax"; }
  void describe(CallSettings& settings) const override {
    settings.set("axis", std::int64_t{axis_});
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0,
                  backend(dy.device()).normalization().softmax_gradient(y_, dy, axis_, logarithm_));
  }

 private:
  Tensor y_;
  int axis_;
  bool logarithm_;
};

Variable apply(const Variable& x, int axis, bool logarithm) {
  const int positive = checked_axis(axis, x.shape(), logarithm ? "log_softmax" : "softmax");
  const Tensor y =
      backend(x.value().device()).normalization().softmax(x.value(), positive, logarithm);
  return Function::record(y, {x},
                          [&] { return std::make_unique<Softmax>(y, positive, logarithm); });
}

}  // namespace

Variable softmax(const Variable& x, int axis) {
  return apply(x, axis, false);
}

Variable log_softmax(const Variable& x, int axis) {
  return apply(x, axis, true);
}

}  // namespace tasuki::functions
