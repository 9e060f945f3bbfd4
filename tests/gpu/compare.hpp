// How results of two sides are compared.
#pragma once

#include <gtest/gtest.h>

#include "side.hpp"

namespace tasuki::testing {

// Norm of the difference over the norm of `expected`, both Euclidean; of values that are all zero,
// the norm of the difference alone. Infinite where a value is NaN. From any device, type and
// layout.
double relative_distance(const Tensor& found, const Tensor& expected);

// Success when names and shapes are the same and all distances are at most `tolerance`.
::testing::AssertionResult agree(const Results& found, const Results& expected, double tolerance);

}  // namespace tasuki::testing
