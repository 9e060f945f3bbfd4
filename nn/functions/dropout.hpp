// Dropout (Srivastava et al., JMLR 15, 2014), scaled while training.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// While training each element is set to 0 with probability `ratio`, the others are multiplied by
// 1 / (1 - ratio); otherwise x itself. What is dropped is a function of the seed and epoch of the
// RandomScope, of the example and of the place in the model, never of how examples are batched.
Variable dropout(const Variable& x, float ratio = 0.5f);

}  // namespace tasuki
