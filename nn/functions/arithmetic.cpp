#include "nn/functions/arithmetic.hpp"

#include "nn/functions/building_blocks.hpp"

namespace tasuki::functions {
namespace {

class Add final : public Function {
 public:
  const char* name() const override { return "add"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (gradients.needed(i)) gradients.add(i, dy);
  }
};

// The two operands before conversion and broadcasting.
struct Operands {
  Shape shapes[2];
  DType types[2];
};

class BinaryFunction final : public Function {
 public:
  BinaryFunction(const char* name, Binary f, Tensor a, Tensor b, const Operands& operands)
      : name_(name), f_(f), a_(std::move(a)), b_(std::move(b)), operands_(operands) {}
  const char* name() const override { return name_; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    for (std::size_t i = 0; i < 2; ++i)
      if (gradients.needed(i))
        gradients.add(i, sum_to(gradient(i == 0, dy), operands_.shapes[i], operands_.types[i]));
  }

 private:
  // The gradient of the first or second operand, in the result's shape.
  Tensor gradient(bool of_first, const Tensor& dy) const {
    ElementwiseOperations& each = backend(dy.device()).elementwise();
    switch (f_) {
      case Binary::subtract:
        return of_first ? dy : each.map(Map::affine, dy, -1, 0);
      case Binary::multiply:
        return each.binary(Binary::multiply, dy, of_first ? b_ : a_);
      case Binary::divide:
        return of_first ? each.binary(Binary::divide, dy, b_)
                        : each.ternary(Ternary::divisor_gradient, a_, b_, dy);
      case Binary::power:
        return each.ternary(of_first ? Ternary::base_gradient : Ternary::exponent_gradient, a_, b_,
                            dy);
      case Binary::maximum:
        return each.ternary(of_first ? Ternary::if_greater_equal : Ternary::unless_greater_equal,
                            a_, b_, dy);
      case Binary::minimum:
        return each.ternary(of_first ? Ternary::if_greater_equal : Ternary::unless_greater_equal,
                            b_, a_, dy);
      default:  // the sum
        return dy;
    }
  }

  const char* name_;
  Binary f_;
  Tensor a_, b_;  // undefined if no gradient needs it
  Operands operands_;
};

class Where final : public Function {
 public:
  Where(Tensor condition, const Operands& operands)
      : condition_(std::move(condition)), operands_(operands) {}
  const char* name() const override { return "where"; }

  void backward(const Tensor& dy, Gradients& gradients) override {
    ElementwiseOperations& each = backend(dy.device()).elementwise();
    const Tensor zero = Tensor::zeros({}, dy.dtype(), dy.device());
    for (std::size_t i = 0; i < 2; ++i)
      if (gradients.needed(i))
        gradients.add(i, sum_to(each.ternary(Ternary::select, condition_, i == 0 ? dy : zero,
                                             i == 0 ? zero : dy),
                                operands_.shapes[i], operands_.types[i]));
  }

 private:
  Tensor condition_;
  Operands operands_;
};

Operands operands_of(const Variable& a, const Variable& b) {
  return {{a.shape(), b.shape()}, {a.value().dtype(), b.value().dtype()}};
}

Tensor in_type(const Variable& x, DType type) {
  return x.value_as(type).to(type);
}

Tensor compare(const char* name, Binary f, const Variable& a, const Variable& b) {
  const DType type = common_type(a, b, name);
  return backend(a.value().device()).elementwise().binary(f, in_type(a, type), in_type(b, type));
}

Variable combined(const char* name, Binary f, const Variable& a, const Variable& b) {
  const DType type = common_type(a, b, name);
  const Tensor left = in_type(a, type), right = in_type(b, type);
  return Function::record(backend(left.device()).elementwise().binary(f, left, right), {a, b}, [&] {
    const bool is_linear = f == Binary::add || f == Binary::subtract;
    const bool needs_a = !is_linear && (f != Binary::multiply || b.requires_grad());
    const bool needs_b = !is_linear && (f != Binary::multiply || a.requires_grad());
    return std::make_unique<BinaryFunction>(name, f, needs_a ? left : Tensor(),
                                            needs_b ? right : Tensor(), operands_of(a, b));
  });
}

}  // namespace

Variable add(const Variable& a, const Variable& b) {
  if (a.shape() != b.shape() || a.value().dtype() != b.value().dtype())
    return combined("add", Binary::add, a, b);
  return Function::record(backend(a.value().device()).add(a.value(), b.value()), {a, b},
                          [] { return std::make_unique<Add>(); });
}

Variable sub(const Variable& a, const Variable& b) {
  return combined("sub", Binary::subtract, a, b);
}

Variable mul(const Variable& a, const Variable& b) {
  return combined("mul", Binary::multiply, a, b);
}

Variable div(const Variable& a, const Variable& b) {
  return combined("div", Binary::divide, a, b);
}

Variable pow(const Variable& a, const Variable& b) {
  return combined("pow", Binary::power, a, b);
}

Variable maximum(const Variable& a, const Variable& b) {
  return combined("maximum", Binary::maximum, a, b);
}

Variable minimum(const Variable& a, const Variable& b) {
  return combined("minimum", Binary::minimum, a, b);
}

Variable where(const Tensor& condition, const Variable& a, const Variable& b) {
  const DType type = common_type(a, b, "where");
  const Tensor left = in_type(a, type), right = in_type(b, type);
  const Tensor mask = condition.to(left.device()).to(type);
  return Function::record(
      backend(left.device()).elementwise().ternary(Ternary::select, mask, left, right), {a, b},
      [&] { return std::make_unique<Where>(mask, operands_of(a, b)); });
}

Tensor equal(const Variable& a, const Variable& b) {
  return compare("equal", Binary::equal, a, b);
}

Tensor greater(const Variable& a, const Variable& b) {
  return compare("greater", Binary::greater, a, b);
}

Tensor greater_equal(const Variable& a, const Variable& b) {
  return compare("greater_equal", Binary::greater_equal, a, b);
}

Variable neg(const Variable& x) {
  return mapped("neg", Map::affine, x, -1, 0);
}

Variable exp(const Variable& x) {
  return mapped("exp", Map::exp, x);
}

Variable log(const Variable& x) {
  return mapped("log", Map::log, x);
}

Variable sqrt(const Variable& x) {
  return mapped("sqrt", Map::sqrt, x);
}

Variable pow(const Variable& x, float exponent) {
  return mapped("pow", Map::power, x, exponent);
}

Variable abs(const Variable& x) {
  return mapped("abs", Map::abs, x);
}

Variable clip(const Variable& x, float low, float high) {
  TASUKI_CHECK(low <= high, "clip: the lower limit {} is above the upper limit {}", low, high);
  return mapped("clip", Map::clip, x, low, high);
}

}  // namespace tasuki::functions

namespace tasuki {

Variable operator-(const Variable& x) {
  return functions::mapped("neg", Map::affine, x, -1, 0);
}

Variable operator+(const Variable& x, float number) {
  return functions::mapped("add", Map::affine, x, 1, number);
}

Variable operator+(float number, const Variable& x) {
  return x + number;
}

Variable operator-(const Variable& x, float number) {
  return functions::mapped("sub", Map::affine, x, 1, -number);
}

Variable operator-(float number, const Variable& x) {
  return functions::mapped("sub", Map::affine, x, -1, number);
}

Variable operator*(const Variable& x, float number) {
  return functions::mapped("mul", Map::affine, x, number, 0);
}

Variable operator*(float number, const Variable& x) {
  return x * number;
}

Variable operator/(const Variable& x, float number) {
  return functions::mapped("div", Map::affine, x, 1 / number, 0);
}

Variable operator/(float number, const Variable& x) {
  return functions::mapped("div", Map::quotient, x, number);
}

}  // namespace tasuki
