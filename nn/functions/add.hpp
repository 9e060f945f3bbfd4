// Sum of two values (residual connections).
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// Shapes that differ are broadcast as in arithmetic.hpp.
Variable add(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) {
  return add(a, b);
}

}  // namespace tasuki
