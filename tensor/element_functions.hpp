// The functions that ElementwiseOperations computes.
#pragma once

namespace tasuki {

// Functions of one value x with settings p and q.
enum class Map {
  affine,    // p x + q
  quotient,  // p / x
  power,     // x^p
  exp,
  log,
  sqrt,
  abs,
  clip,       // x limited to p .. q
  gelu,       // x times the normal distribution's probability of values below x, by erf
  gelu_tanh,  // its approximation by tanh
  silu,       // x / (1 + exp(-x))
  elu,        // x if positive, else p (exp(x) - 1)
  softplus,   // log(1 + exp(p x)) / p
};

// Whether the gradient of a function is computed from its result, otherwise from x.
constexpr bool gradient_needs_result(Map f) {
  return f == Map::exp || f == Map::sqrt;
}

// Functions of two values; comparisons are 1 or 0.
enum class Binary {
  add,
  subtract,
  multiply,
  divide,
  maximum,  // NaN if either is
  minimum,
  power,  // as std::pow
  equal,
  greater,
  greater_equal,
};

// Functions of three values a, b and c; most are gradients of other functions, with c the gradient
// of the result.
enum class Ternary {
  select,                // b where a is not 0, else c
  if_greater_equal,      // c where a >= b, else 0
  unless_greater_equal,  // 0 where a >= b, else c
  if_equal,              // c where a = b or both are NaN, else 0
  divisor_gradient,      // of a / b by b: -c a / b^2
  base_gradient,         // of a^b by a: c b a^(b - 1)
  exponent_gradient      // of a^b by b: c a^b log(a)
};

}  // namespace tasuki
