#include "nn/functions/loss.hpp"

#include "nn/function.hpp"
#include "tensor/backend.hpp"

namespace tasuki::functions {
namespace {

class MeanSquaredError final : public Function {
 public:
  MeanSquaredError(Tensor difference, DType dtype)
      : difference_(std::move(difference)), dtype_(dtype) {}
  const char* name() const override { return "mean_squared_error"; }

  // dy * 2 / count * (y - t): the product of a scalar in device memory and a vector.
  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(difference_.device());
    const std::int64_t count = difference_.count();
    const Tensor dx = device.linear(dy.to(DType::float32).reshape({1, 1}),
                                    difference_.reshape({count, 1}), {}, false);
    if (count > 0) device.scale(dx, 2 / static_cast<float>(count));
    gradients.add(0, dx.reshape(difference_.shape()).to(dtype_));
  }

 private:
  Tensor difference_;  // y - t, float32
  DType dtype_;        // of y
};

}  // namespace

Variable mean_squared_error(const Variable& y, const Tensor& t) {
  TASUKI_CHECK(y.shape() == t.shape(),
               "mean_squared_error: values of {} and targets of {} do "
               "not fit",
               y.shape().text(), t.shape().text());
  Backend& device = backend(y.value().device());
  // In float32: targets may exceed the range of 16 bits.
  const Tensor difference = y.value().plain().to(DType::float32).clone();
  device.accumulate(difference, t.to(DType::float32), -1);
  const std::int64_t count = difference.count();
  const Tensor row = difference.reshape({1, count});
  const Tensor loss = device.linear(row, row, {}, false);
  if (count > 0) device.scale(loss, 1 / static_cast<float>(count));
  return Function::record(loss.reshape({}), {y}, [&] {
    return std::make_unique<MeanSquaredError>(difference, y.value().dtype());
  });
}

}  // namespace tasuki::functions
