// The memory of recorded work.
#pragma once

#include <memory>

#include "tensor/cuda/context.hpp"

namespace tasuki {

// One pool for all recordings of a device that exist at the same time: they run one after the
// other, and nothing in it outlives a run except what `work` keeps. Its segments are kept as long
// as any of the recordings, which write to them in every replay.
std::shared_ptr<BlockPool> recording_pool(const CudaContext& context);

// Bytes held by recordings of the device.
std::size_t recording_bytes(const CudaContext& context);

}  // namespace tasuki
