// Arithmetic of arrays, element by element.
//
// Operands are broadcast as in NumPy: shapes are aligned at their last axes, and axes of size 1 are
// repeated. Types are equal, or one is float32 (a parameter) and yields to the other type. The
// gradient of a repeated operand is summed over the repetitions.
//
//   Variable y = gamma * (x - mean) / F::sqrt(variance + 1e-5f) + beta;
#pragma once

#include "nn/variable.hpp"

namespace tasuki::functions {

Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
// a^b, as std::pow; the gradient of b is NaN where a is negative.
Variable pow(const Variable& a, const Variable& b);
// NaN where either is NaN. The gradient goes to a where both are equal, and to b where either is
// NaN.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
// a where `condition` is not 0, else b. `condition` is a tensor of any type, such as a comparison
// below, and has no gradient.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);

// 1 where the comparison holds, else 0, in the operands' type.
Tensor equal(const Variable& a, const Variable& b);
Tensor greater(const Variable& a, const Variable& b);
Tensor greater_equal(const Variable& a, const Variable& b);

Variable neg(const Variable& x);
Variable exp(const Variable& x);
// Natural logarithm; -infinity at 0 (on CPUs also at subnormal numbers), NaN below.
Variable log(const Variable& x);
// NaN below 0; the gradient is infinite at 0.
Variable sqrt(const Variable& x);
// x^exponent, as std::pow: NaN where x is negative and the exponent is not an integer.
Variable pow(const Variable& x, float exponent);
// |x|, with gradient 0 at 0.
Variable abs(const Variable& x);
// x limited to low .. high, with gradient 0 outside.
Variable clip(const Variable& x, float low, float high);

}  // namespace tasuki::functions

// Argument-dependent lookup finds operators in any namespace.
namespace tasuki {

inline Variable operator+(const Variable& a, const Variable& b) {
  return functions::add(a, b);
}
inline Variable operator-(const Variable& a, const Variable& b) {
  return functions::sub(a, b);
}
inline Variable operator*(const Variable& a, const Variable& b) {
  return functions::mul(a, b);
}
inline Variable operator/(const Variable& a, const Variable& b) {
  return functions::div(a, b);
}
Variable operator-(const Variable& x);
Variable operator+(const Variable& x, float number);
Variable operator+(float number, const Variable& x);
Variable operator-(const Variable& x, float number);
Variable operator-(float number, const Variable& x);
Variable operator*(const Variable& x, float number);
Variable operator*(float number, const Variable& x);
Variable operator/(const Variable& x, float number);
Variable operator/(float number, const Variable& x);

}  // namespace tasuki
