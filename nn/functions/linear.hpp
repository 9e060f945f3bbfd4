// Fully connected layer.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// y = x w^T + b, with `relu` max(y, 0) in the same pass. x: N x I (more axes are flattened), w:
// O x I, b: O or undefined; y: N x O.
Variable linear(const Variable& x, const Variable& w, const Variable& b = {}, bool relu = false);

}  // namespace tasuki
