// The simulated GPU's properties.
#pragma once

namespace tasuki::simulated {

// SIMULATED_CUDA_CAPABILITY, 90 as a rule: 10 times the major number.
int compute_capability();

}  // namespace tasuki::simulated
