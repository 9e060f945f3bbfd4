// Batches of examples from a data set in the device's memory.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// destination[i] = source[indices[i]] for items of `count` values each: of the same type, or from
// uint8 (as value / 255, rounded correctly) or float32 to an activation's type. Numbers that are
// not in 0 .. source_items - 1 give zeros.
void gather(const Launch& launch, DType to, void* destination, DType from, const void* source,
            std::int64_t source_items, const std::int64_t* indices, std::int64_t items,
            std::int64_t count);

}  // namespace tasuki::kernels
