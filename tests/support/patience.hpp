// How many times as long as usual a program may take.
#pragma once

#include <unistd.h>

#include <cstdlib>

namespace tasuki::testing {

// Grows with TASUKI_TEST_PATIENCE, the factor of ctest's limits with sanitizers
// (cmake/TasukiTest.cmake; 1 without ctest), and with the mean number of threads that wanted a
// core in the last minute: limits must hold beside other work. The fault suite measures what a
// quiet machine takes (./test.sh --faults).
inline double patience() {
  const char* factor = std::getenv("TASUKI_TEST_PATIENCE");
  double load = 0;
  if (getloadavg(&load, 1) != 1) load = 0;
  const auto cores = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  return (factor != nullptr ? std::atof(factor) : 1) * (1 + load / cores);
}

}  // namespace tasuki::testing
