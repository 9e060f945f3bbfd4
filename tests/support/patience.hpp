// How many times as long as usual a program may take.
#pragma once

#include <cstdlib>

namespace tasuki::testing {

// TASUKI_TEST_PATIENCE: what ctest's limits were multiplied with (cmake/TasukiTest.cmake), more
// than 1 with sanitizers. 1 without ctest.
inline double patience() {
  const char* factor = std::getenv("TASUKI_TEST_PATIENCE");
  return factor != nullptr ? std::atof(factor) : 1;
}

}  // namespace tasuki::testing
