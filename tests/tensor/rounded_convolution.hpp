// Own convolutions of bfloat16 against sums in double.
#pragma once

#include "tensor/cpu/own_convolution.hpp"
#include "tests/support/convolution_definition.hpp"

namespace tasuki::testing {

// Expects results that are exact but for their rounding, and the same bits with 1, 2 and 3 threads.
void check_definition(const OwnConvolution& convolution, const ConvolutionProblem& problem);

}  // namespace tasuki::testing
