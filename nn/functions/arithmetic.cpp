#include "nn/functions/arithmetic.hpp"

#include "nn/function.hpp"
#include "nn/functions/broadcast_pair.hpp"
#include "nn/functions/mapped.hpp"
#include "tensor/backend.hpp"
#include "tensor/elementwise_operations.hpp"

namespace tasuki {
namespace {

// What the two operands were before they were converted and broadcast.
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
  // Of the first or the second operand, in the shape of the result.
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

Variable add_broadcast(const Variable& a, const Variable& b) {
  return combined("add", Binary::add, a, b);
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

Variable operator-(const Variable& x) {
  return mapped("neg", Map::affine, x, -1, 0);
}
Variable operator+(const Variable& x, float number) {
  return mapped("add", Map::affine, x, 1, number);
}
Variable operator+(float number, const Variable& x) {
  return x + number;
}
Variable operator-(const Variable& x, float number) {
  return mapped("sub", Map::affine, x, 1, -number);
}
Variable operator-(float number, const Variable& x) {
  return mapped("sub", Map::affine, x, -1, number);
}
Variable operator*(const Variable& x, float number) {
  return mapped("mul", Map::affine, x, number, 0);
}
Variable operator*(float number, const Variable& x) {
  return x * number;
}
Variable operator/(const Variable& x, float number) {
  return mapped("div", Map::affine, x, 1 / number, 0);
}
Variable operator/(float number, const Variable& x) {
  return mapped("div", Map::quotient, x, number);
}

}  // namespace tasuki
