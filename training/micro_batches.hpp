// MicroBatches: parts of a batch whose passes a model orders itself, as a Pipeline does.
#pragma once

#include <cstdint>
#include <functional>

#include "nn/variable.hpp"

namespace tasuki {

struct MicroBatches {
  std::int64_t count = 1;
  // Calls `forward` for each micro-batch, 0 to count - 1, and `backward` with what that returned,
  // in an order of its own: Pipeline::run() (parallel/pipeline.hpp). Empty: batches are not
  // divided.
  using Forward = std::function<Variable(std::int64_t micro_batch)>;
  using Backward = std::function<void(std::int64_t micro_batch, const Variable& loss)>;
  std::function<void(const Forward& forward, const Backward& backward)> run = {};
};

}  // namespace tasuki
