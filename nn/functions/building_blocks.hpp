// Parts shared by functions, for your own functions, too: checks of operands, functions of single
// elements, and the backward passes of broadcast operands and of weights.
#pragma once

#include <vector>

#include "nn/function.hpp"
#include "tensor/array_operations.hpp"
#include "tensor/backend.hpp"
#include "tensor/elementwise_operations.hpp"

namespace tasuki::functions {

// Throws Error unless x has float32, float16 or bfloat16; `what` names the function.
void check_operand_type(const char* what, const Variable& x);
// The type in which functions of these values compute: float32 yields to the other type.
DType common_type(const Variable& a, const Variable& b, const char* what);

// An axis of a shape; negative ones count from the last. An error names the function.
int checked_axis(int axis, const Shape& shape, const char* what);
// Distinct axes of a shape; an empty list means all.
AxisSet checked_axes(const std::vector<int>& axes, const Shape& shape, const char* what);

// The gradient of a broadcast result as the gradient of an operand of this shape and type: summed
// over the axes along which the operand was repeated. Sums are float32.
Tensor sum_to(const Tensor& gradient, const Shape& shape, DType type);

// Applies f, with settings p and q, to each element of x, as a differentiable function. `name`
// appears in errors and must outlive the graph.
Variable mapped(const char* name, Map f, const Variable& x, float p = 0, float q = 0);

// The backward pass of functions of x, w, b (linear, conv2d, deconv2d). Calls weights(dw,
// accumulate, db) to write the gradient of w and, if db is defined, the gradient of b, which is
// overwritten: devices can do both at once. Calls data() for the gradient of x. Gradients that are
// not needed are skipped. Parameters come first, so that their exchange can start while the rest is
// computed.
template <class Weights, class Data>
void backward_of_weighted(const Tensor& dy, const Shape& w, Gradients& gradients,
                          const Weights& weights, const Data& data) {
  Tensor db;
  if (gradients.needed(2)) {
    const auto [gradient, accumulate] = gradients.into(2, Shape{dy.shape()[1]});
    if (accumulate || !gradients.needed(1))
      backend(dy.device()).backward_bias(dy, gradient, accumulate);
    else
      db = gradient;
  }
  if (gradients.needed(1)) {
    const auto [dw, accumulate] = gradients.into(1, w);
    weights(dw, accumulate, db);
  }
  // Parameters were registered in the order w, b; arenas have the reverse order.
  if (gradients.needed(2)) gradients.written(2);
  if (gradients.needed(1)) gradients.written(1);
  if (gradients.needed(0)) gradients.add(0, data());
}

}  // namespace tasuki::functions
