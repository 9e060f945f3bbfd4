// The memory of recorded work.
#pragma once

#include <memory>

#include "tasuki/tensor/cuda/context.hpp"

namespace tasuki {

// One pool for all recordings of a device that live at a time: they run one after the other, and
// nothing in it outlasts the run of one but what `work` keeps hold of.
std::shared_ptr<BlockPool> recording_pool(const CudaContext& context);

}  // namespace tasuki
