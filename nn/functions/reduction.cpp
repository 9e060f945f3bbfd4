#include "nn/functions/arrays.hpp"

#include "nn/call_recorder.hpp"
#include "nn/functions/arithmetic.hpp"
#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

// `reduced` without the reduced axes, which have size 1.
Shape without(const Shape& reduced, AxisSet axes) {
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < reduced.rank(); ++axis)
    if ((axes >> axis & 1U) == 0) sizes.push_back(reduced[axis]);
  return Shape(std::span<const std::int64_t>(sizes));
}

// The axes that have size 1 now; it makes no difference whether those that had it before are named.
void describe_reduced(CallSettings& settings, const Shape& with_axes) {
  std::vector<std::int64_t> axes;
  for (int axis = 0; axis < with_axes.rank(); ++axis)
    if (with_axes[axis] == 1) axes.push_back(axis);
  settings.set("axes", std::move(axes));
}

class Sum final : public Function {
 public:
  Sum(const char* name, const Shape& x, const Shape& reduced, float factor)
      : name_(name), x_(x), reduced_(reduced), factor_(factor) {}
  const char* name() const override { return name_; }
  void describe(CallSettings& settings) const override { describe_reduced(settings, reduced_); }

  void backward(const Tensor& dy, Gradients& gradients) override {
    Backend& device = backend(dy.device());
    Tensor upstream = dy.plain().reshape(reduced_);
    if (factor_ != 1) upstream = device.elementwise().map(Map::affine, upstream, factor_, 0);
    View repeated(x_);
    repeated.strides = broadcast_strides(reduced_, x_);
    gradients.add(0, device.arrays().take_view(upstream, repeated));
  }

 private:
  const char* name_;
  Shape x_, reduced_;  // of the input, and of the result with the reduced axes
  float factor_;
};

class Max final : public Function {
 public:
  Max(Tensor x, Tensor y) : x_(std::move(x)), y_(std::move(y)) {}
  const char* name() const override { return "max"; }
  void describe(CallSettings& settings) const override { describe_reduced(settings, y_.shape()); }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device())
                         .elementwise()
                         .ternary(Ternary::if_equal, x_, y_, dy.plain().reshape(y_.shape())));
  }

 private:
  Tensor x_, y_;  // y with the reduced axes
};

Variable summed(const char* name, const Variable& x, AxisSet axes, bool keepdims, float factor) {
  check_operand_type(name, x);
  const Tensor& value = x.value();
  const Tensor y =
      backend(value.device()).arrays().reduce(Reduction::sum, value, axes, factor, value.dtype());
  return Function::record(keepdims ? y : y.reshape(without(y.shape(), axes)), {x}, [&] {
    return std::make_unique<Sum>(name, x.shape(), y.shape(), factor);
  });
}

}  // namespace

Variable sum(const Variable& x, const std::vector<int>& axes, bool keepdims) {
  return summed("sum", x, checked_axes(axes, x.shape(), "sum"), keepdims, 1);
}

Variable mean(const Variable& x, const std::vector<int>& axes, bool keepdims) {
  const AxisSet set = checked_axes(axes, x.shape(), "mean");
  std::int64_t count = 1;
  for (int axis = 0; axis < x.shape().rank(); ++axis)
    if ((set >> axis & 1U) != 0) count *= x.shape()[axis];
  return summed("mean", x, set, keepdims, 1 / static_cast<float>(count));
}

Variable max(const Variable& x, const std::vector<int>& axes, bool keepdims) {
  check_operand_type("max", x);
  const AxisSet set = checked_axes(axes, x.shape(), "max");
  const Tensor& value = x.value();
  const Tensor y =
      backend(value.device()).arrays().reduce(Reduction::max, value, set, 1, value.dtype());
  return Function::record(keepdims ? y : y.reshape(without(y.shape(), set)), {x},
                          [&] { return std::make_unique<Max>(value, y); });
}

Variable min(const Variable& x, const std::vector<int>& axes, bool keepdims) {
  return neg(max(neg(x), axes, keepdims));
}

}  // namespace tasuki::functions
