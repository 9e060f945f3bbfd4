// Sum of two values of the same shape (residual connections).
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

Variable add(const Variable& a, const Variable& b);
inline Variable operator+(const Variable& a, const Variable& b) {
  return add(a, b);
}

}  // namespace tasuki
