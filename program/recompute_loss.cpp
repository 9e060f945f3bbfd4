#include "program/recompute_loss.hpp"

#include <algorithm>

namespace tasuki::program {

RecomputePlan::Mode mode_of(Recompute recompute) {
  switch (recompute) {
    case Recompute::none:
      return RecomputePlan::Mode::none;
    case Recompute::all:
      return RecomputePlan::Mode::all;
    case Recompute::automatic:
      break;
  }
  return RecomputePlan::Mode::measured;
}

void trace_activations(const Batch& batch, std::size_t before) {
  const std::size_t after = host_pool_statistics().in_use;
  const double now = trace_clock();
  trace({.name = "activations",
         .row = TraceRow::blocks,
         .begin = now,
         .end = now,
         .number = batch.size(),
         .bytes = static_cast<std::int64_t>(after - std::min(before, after)),
         .lane = trace_lane_of_thread()});
}

}  // namespace tasuki::program
