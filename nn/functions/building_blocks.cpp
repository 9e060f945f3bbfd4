#include "nn/functions/building_blocks.hpp"

#include "core/error.hpp"
#include "nn/call_recorder.hpp"

namespace tasuki::functions {
namespace {

void describe_map(CallSettings& settings, Map f, float p, float q) {
  settings.set("map", static_cast<std::int64_t>(f));
  settings.set("p", static_cast<double>(p));
  settings.set("q", static_cast<double>(q));
}

class Mapped final : public Function {
 public:
  Mapped(const char* name, Map f, Tensor kept, float p, float q)
      : name_(name), f_(f), kept_(std::move(kept)), p_(p), q_(q) {}
  const char* name() const override { return name_; }
  void describe(CallSettings& settings) const override { describe_map(settings, f_, p_, q_); }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(0, backend(dy.device()).elementwise().map_gradient(f_, kept_, dy, p_, q_));
  }

 private:
  const char* name_;
  Map f_;
  Tensor kept_;  // the result if gradient_needs_result(f_), else x
  float p_, q_;
};

// Its gradient depends on neither x nor the result, so nothing is kept.
class Affine final : public Function {
 public:
  Affine(const char* name, float factor, float number)
      : name_(name), factor_(factor), number_(number) {}
  const char* name() const override { return name_; }
  void describe(CallSettings& settings) const override {
    describe_map(settings, Map::affine, factor_, number_);
  }

  void backward(const Tensor& dy, Gradients& gradients) override {
    gradients.add(
        0, factor_ == 1 ? dy : backend(dy.device()).elementwise().map(Map::affine, dy, factor_, 0));
  }

 private:
  const char* name_;
  float factor_, number_;
};

}  // namespace

void check_operand_type(const char* what, const Variable& x) {
  const DType type = x.value().dtype();
  TASUKI_CHECK(is_activation_type(type), "{}: {} of {} has no arithmetic; convert it to float32",
               what, name_of(type), x.shape().text());
}

DType common_type(const Variable& a, const Variable& b, const char* what) {
  check_operand_type(what, a);
  check_operand_type(what, b);
  const DType left = a.value().dtype(), right = b.value().dtype();
  TASUKI_CHECK(left == right || left == DType::float32 || right == DType::float32,
               "{}: {} of {} and {} of {} have no common type", what, name_of(left),
               a.shape().text(), name_of(right), b.shape().text());
  return left == DType::float32 ? right : left;
}

int checked_axis(int axis, const Shape& shape, const char* what) {
  const int found = axis < 0 ? axis + shape.rank() : axis;
  TASUKI_CHECK(found >= 0 && found < shape.rank(), "{}: an array of {} has no axis {}", what,
               shape.text(), axis);
  return found;
}

AxisSet checked_axes(const std::vector<int>& axes, const Shape& shape, const char* what) {
  if (axes.empty()) return (AxisSet{1} << shape.rank()) - 1;
  AxisSet set = 0;
  for (const int axis : axes) {
    const AxisSet bit = AxisSet{1} << checked_axis(axis, shape, what);
    TASUKI_CHECK((set & bit) == 0, "{}: axis {} of {} is named twice", what, axis, shape.text());
    set |= bit;
  }
  return set;
}

Tensor sum_to(const Tensor& gradient, const Shape& shape, DType type) {
  if (gradient.shape() == shape) return gradient.to(type);
  const int missing = gradient.shape().rank() - shape.rank();
  AxisSet repeated = 0;
  for (int axis = 0; axis < gradient.shape().rank(); ++axis)
    if (axis < missing || shape[axis - missing] != gradient.shape()[axis])
      repeated |= AxisSet{1} << axis;
  return backend(gradient.device())
      .arrays()
      .reduce(Reduction::sum, gradient, repeated, 1, type)
      .reshape(shape);
}

Variable mapped(const char* name, Map f, const Variable& x, float p, float q) {
  check_operand_type(name, x);
  const Tensor y = backend(x.value().device()).elementwise().map(f, x.value(), p, q);
  return Function::record(y, {x}, [&]() -> std::unique_ptr<Function> {
    if (f == Map::affine) return std::make_unique<Affine>(name, p, q);
    return std::make_unique<Mapped>(name, f, gradient_needs_result(f) ? y : x.value(), p, q);
  });
}

}  // namespace tasuki::functions
