// Wall-clock time between calls.
#pragma once

#include <chrono>

namespace tasuki {

class Stopwatch {
 public:
  // Seconds since the last lap, or since construction; starts the next lap.
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> passed = now - began_;
    began_ = now;
    return passed.count();
  }

 private:
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace tasuki
