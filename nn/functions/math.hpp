// Functions of each element, which keep the shape.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

Variable neg(const Variable& x);
Variable exp(const Variable& x);
// Natural logarithm; -infinity at 0 (on CPUs also at subnormal numbers), NaN below.
Variable log(const Variable& x);
// NaN below 0; the gradient is infinite at 0.
Variable sqrt(const Variable& x);
// x^exponent, as std::pow: NaN where x is negative and the exponent no integer.
Variable pow(const Variable& x, float exponent);
// |x|; the gradient is 0 at 0.
Variable abs(const Variable& x);
// x limited to low .. high; the gradient is 0 beyond.
Variable clip(const Variable& x, float low, float high);

}  // namespace tasuki
