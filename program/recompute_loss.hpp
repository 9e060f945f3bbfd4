// Loss functions whose forward passes follow --recompute.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "core/trace.hpp"
#include "nn/recompute.hpp"
#include "program/flags/training_settings.hpp"
#include "tensor/storage.hpp"
#include "training/observation.hpp"

namespace tasuki::program {

RecomputePlan::Mode mode_of(Recompute recompute);

// For a trace: the examples of a forward pass on the CPU, and the bytes that it has kept since
// `before` bytes of the host's pool were in use.
void trace_activations(const Batch& batch, std::size_t before);

// A loss function whose forward passes follow the plan, on `device`. `needs_blocks`: without blocks
// that the plan can choose, it is an error on all ranks.
template <class Loss>
Loss following(const std::shared_ptr<RecomputePlan>& plan, bool needs_blocks, Device device,
               Loss loss) {
  if (!loss) return loss;
  return [plan, needs_blocks, device, loss = std::move(loss)](const Batch& batch,
                                                              Observation& report) {
    if (!is_recording()) return loss(batch, report);
    const std::size_t before = host_pool_statistics().in_use;
    auto result = [&] {
      const RecomputeScope scope(*plan);
      return loss(batch, report);
    }();
    if (is_tracing() && device.is_cpu()) trace_activations(batch, before);
    if (needs_blocks && plan->blocks() == 0)
      fail_everywhere(ErrorKind::usage,
                      "--recompute: the model has no blocks that could be recomputed "
                      "(Sequential::end_block, may_recompute); leave the flag out");
    return result;
  };
}

}  // namespace tasuki::program
