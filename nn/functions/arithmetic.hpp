// Arithmetic of arrays, element by element, with NumPy's broadcasting: shapes are aligned at their
// last axes, and axes of size 1 are repeated. Types are equal, or float32 (a parameter) and the
// type of the other operand, in which the result is then computed. The gradient of an operand that
// was repeated is summed over the repetitions.
//
//   Variable y = gamma * (x - mean) / sqrt(variance + 1e-5f) + beta;
#pragma once

#include "nn/functions/add.hpp"
#include "nn/variable.hpp"

namespace tasuki {

Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
// a^b, as std::pow; the gradient of b is NaN where a is negative.
Variable pow(const Variable& a, const Variable& b);
// NaN where either is. Where both are equal, a gets the gradient; where either is NaN, b.
Variable maximum(const Variable& a, const Variable& b);
Variable minimum(const Variable& a, const Variable& b);
// a where `condition` is not 0, else b. `condition` is a tensor of any type, such as a comparison
// below, and has no gradient.
Variable where(const Tensor& condition, const Variable& a, const Variable& b);

// 1 where it holds, else 0, in the type of the operands.
Tensor equal(const Variable& a, const Variable& b);
Tensor greater(const Variable& a, const Variable& b);
Tensor greater_equal(const Variable& a, const Variable& b);

// operator+ of two Variables is in add.hpp.
inline Variable operator-(const Variable& a, const Variable& b) {
  return sub(a, b);
}
inline Variable operator*(const Variable& a, const Variable& b) {
  return mul(a, b);
}
inline Variable operator/(const Variable& a, const Variable& b) {
  return div(a, b);
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
