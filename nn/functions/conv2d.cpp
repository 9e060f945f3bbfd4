#include "nn/functions/connection.hpp"

#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

class Conv2dFunction final : public Function {
 public:
  Conv2dFunction(Tensor x, Tensor w, const Conv2dOptions& options)
      : x_(std::move(x)), w_(std::move(w)), options_(options) {}
  const char* name() const override { return "conv2d"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    backward_of_weighted(
        dy, w_.shape(), gradients,
        [&](const Tensor& dw, bool accumulate, const Tensor& db) {
          if (db) device.backward_bias(dy, db, false);
          device.conv2d_backward_weights(x_, dy, dw, options_, accumulate);
        },
        [&] { return device.conv2d_backward_data(dy, w_, x_.shape(), options_); });
  }

 private:
  Tensor x_, w_;
  Conv2dOptions options_;
};

}  // namespace

Variable conv2d(const Variable& x, const Variable& w, const Variable& b,
                const Conv2dOptions& options) {
  const Tensor weights = w.value_as(x.value().dtype());
  Tensor prepared;
  Tensor y = backend(x.value().device()).conv2d(x.value(), weights, b.value(), options, &prepared);
  return Function::record(std::move(y), {x, w, b}, [&] {
    return std::make_unique<Conv2dFunction>(x.value(), prepared, options);
  });
}

}  // namespace tasuki::functions
