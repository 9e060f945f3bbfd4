// Timing of alternatives at run time.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>

namespace tasuki {

// Seconds that `run` takes: the best of three runs after a first one.
template <class Run>
double best_seconds(const Run& run) {
  using Clock = std::chrono::steady_clock;
  run();
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    run();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace tasuki
