// Own convolutions of bfloat16 against sums in double.
#pragma once

#include "tensor/geometry.hpp"
#include "tensor/tensor.hpp"
#include "tests/support/convolution_definition.hpp"

namespace tasuki::testing {

struct RoundedConvolution {
  Tensor (*forward)(const ConvolutionGeometry&, const Tensor& x, const Tensor& w, const Tensor& b);
  Tensor (*backward_data)(const ConvolutionGeometry&, const Tensor& dy, const Tensor& w);
  Tensor (*backward_weights)(const ConvolutionGeometry&, const Tensor& x, const Tensor& dy);
};

// Expects results that are exact but for their rounding, and the same bits with 1, 2 and 3 threads.
void check_definition(const RoundedConvolution& convolution, const ConvolutionProblem& problem);

}  // namespace tasuki::testing
