// The memory of recorded work.
#pragma once

#include <memory>

#include "tasuki/tensor/cuda/context.hpp"

namespace tasuki {

// One pool for all recordings of a device that live at a time: they run one after the other, and
// nothing in it outlasts the run of one but what `work` keeps hold of. Its segments are kept as
// long as any of the recordings, which write there whenever they are repeated.
std::shared_ptr<BlockPool> recording_pool(const CudaContext& context);

// Bytes that recordings of the device hold.
std::size_t recording_bytes(const CudaContext& context);

}  // namespace tasuki
