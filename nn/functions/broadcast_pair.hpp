// What functions of arrays that are broadcast share.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// The type in which functions of these values compute: theirs, or of float32 and another the other.
DType common_type(const Variable& a, const Variable& b, const char* what);

// A gradient of a broadcast result as that of an operand of this shape and type: summed over the
// axes along which the operand was repeated. Sums are float32.
Tensor sum_to(const Tensor& gradient, const Shape& shape, DType type);

// The sum of values whose shapes or types differ.
Variable add_broadcast(const Variable& a, const Variable& b);

}  // namespace tasuki
