// Random noise that regularises, as in the discriminators of GANs.
#pragma once

#include "tasuki/nn/variable.hpp"

namespace tasuki {

// x + sigma * normal in training, x in evaluation. The noise is a function of (seed, epoch,
// example, place in the forward pass, element), as dropout's masks are (nn/random.hpp).
Variable gaussian_noise(const Variable& x, float sigma);

}  // namespace tasuki
