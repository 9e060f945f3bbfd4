// Element-wise activation functions, which keep the shape.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// max(x, 0)
Variable relu(const Variable& x);
// x if positive, else slope * x; slope >= 0 (Chainer's default is 0.2).
Variable leaky_relu(const Variable& x, float slope = 0.2f);
// 1 / (1 + exp(-x))
Variable sigmoid(const Variable& x);
Variable tanh(const Variable& x);

}  // namespace tasuki
