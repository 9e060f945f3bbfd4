// Products of matrices.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// op(a) op(b) for the matrices in the last two axes (m x k and k x n), where op transposes them if
// so asked. The axes before are the same in both, or one operand is a single matrix, which meets
// all of the other's: N x T x I times I x O is N x T x O.
Variable matmul(const Variable& a, const Variable& b, bool transpose_a = false,
                bool transpose_b = false);

}  // namespace tasuki
