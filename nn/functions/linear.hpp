// Fully connected layer.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// y = x w^T + b. x: N x I (more axes are flattened), w: O x I, b: O or undefined; y: N x O.
Variable linear(const Variable& x, const Variable& w, const Variable& b = {});

}  // namespace tasuki
