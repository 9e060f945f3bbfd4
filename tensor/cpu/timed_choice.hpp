// Timing of alternatives at run time.
#pragma once

#include <algorithm>
#include <chrono>
#include <limits>
#include <unordered_map>

#include "core/activity.hpp"
#include "tensor/cpu/dnnl_support.hpp"

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
    report_progress();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

// What this thread has measured: whether the first of two ways is faster.
inline thread_local std::unordered_map<OperationKey, bool, OperationKeyHash> comparisons;

// Whether `first` takes less time than `second`: both are timed once per key and thread, so their
// results must be disposable.
template <class First, class Second>
bool is_faster(const OperationKey& key, const First& first, const Second& second) {
  if (const auto known = comparisons.find(key); known != comparisons.end()) return known->second;
  const bool found = best_seconds(first) < best_seconds(second);
  comparisons.emplace(key, found);
  return found;
}

}  // namespace tasuki
