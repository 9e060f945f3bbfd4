// The same elements under another shape.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// Row-major order of elements is kept; the number of elements must be the same.
Variable reshape(const Variable& x, const Shape& shape);
// N x ... to N x (product of the rest).
Variable flatten(const Variable& x);

}  // namespace tasuki
