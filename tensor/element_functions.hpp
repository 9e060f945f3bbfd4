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

}  // namespace tasuki
