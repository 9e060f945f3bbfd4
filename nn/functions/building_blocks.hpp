// Parts shared by functions, for your own functions, too: checks of operands, functions of single
// elements, and the backward pass of broadcast operands.
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

}  // namespace tasuki::functions
