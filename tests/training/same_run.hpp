// Whether two runs did the same, bit for bit.
#pragma once

#include <string>

#include "small_run.hpp"

namespace tasuki::testing {

void expect_same_bits(const Tensor& a, const Tensor& b, const std::string& what);
void expect_same_run(const SmallRun& a, const SmallRun& b);

}  // namespace tasuki::testing
