// Times of what a stream does, to choose the fastest of several ways.
#pragma once

#include <algorithm>
#include <limits>

#include "core/activity.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/handles.hpp"

namespace tasuki {

// Milliseconds of ten runs in a row, the best of three times; infinite if `run`, which returns
// whether its work was begun, fails. Waits for the device, so nothing may be recorded.
template <class Run>
float best_time(const CudaContext& context, const Run& run) {
  constexpr int rounds = 3, runs = 10;
  const cudaStream_t stream = context.stream();
  const CudaEvent begin = make_timing_event(), end = make_timing_event();
  constexpr float never = std::numeric_limits<float>::infinity();
  float best = never;
  const auto begins = [&run] {
    if (run()) return true;
    clear_error("timing an algorithm");
    return false;
  };
  if (!begins()) return never;  // the first run may load its code
  for (int round = 0; round < rounds; ++round) {
    check_cuda(cudaEventRecord(begin.get(), stream), "cudaEventRecord");
    for (int i = 0; i < runs; ++i)
      if (!begins()) return never;
    check_cuda(cudaEventRecord(end.get(), stream), "cudaEventRecord");
    report_progress();
    check_cuda(cudaEventSynchronize(end.get()), "timing an algorithm");
    float milliseconds = 0;
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "cudaEventElapsedTime");
    best = std::min(best, milliseconds);
  }
  return best;
}

}  // namespace tasuki
