// Dropout (Srivastava et al., JMLR 15, 2014), scaled in training.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// In training each element is set to 0 with probability `ratio`, and the others are multiplied by 1
// / (1 - ratio); otherwise returns x. The mask is a function of the RandomScope's seed and epoch,
// of the example and of the place in the model, never of how examples are batched.
Variable dropout(const Variable& x, float ratio = 0.5f);

}  // namespace tasuki
