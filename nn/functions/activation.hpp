// Activation functions, which keep the shape. At infinity they return their limits: gelu and silu
// of -infinity are 0.
#pragma once

#include "nn/variable.hpp"

namespace tasuki::functions {

// Element by element:

// max(x, 0)
Variable relu(const Variable& x);
// x if positive, else slope * x; slope >= 0 (Chainer's default is 0.2).
Variable leaky_relu(const Variable& x, float slope = 0.2f);
// 1 / (1 + exp(-x))
Variable sigmoid(const Variable& x);
Variable tanh(const Variable& x);
// x times the probability that a standard normal variable is below x, computed with the error
// function or, with `approximate`, as 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), within
// 5e-4 of it.
Variable gelu(const Variable& x, bool approximate = false);
// x * sigmoid(x), also called swish.
Variable silu(const Variable& x);
// x if positive, else alpha * (exp(x) - 1).
Variable elu(const Variable& x, float alpha = 1);
// log(1 + exp(beta * x)) / beta; beta is not 0.
Variable softplus(const Variable& x, float beta = 1);

// Along an axis:

// exp(x) divided by its sum over the axis; negative axes count from the last one. The last axis is
// fastest.
Variable softmax(const Variable& x, int axis = 1);
// The logarithm of softmax(x), exact also where softmax(x) would round to 0.
Variable log_softmax(const Variable& x, int axis = 1);

}  // namespace tasuki::functions
