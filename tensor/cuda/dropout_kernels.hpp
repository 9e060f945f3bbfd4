// Dropout with the numbers of core/philox.hpp.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// How the values of an example are stored: value j of the plain order C x HW at j, or channels
// last.
struct ExampleOrder {
  std::int64_t channels = 1, pixels = 1;
  bool is_channels_last = false;
};

// y = x kept or 0: element j of example i is kept, times 1 / (1 - ratio), when word j % 4 of the
// Philox block with key *seed and counter {j / 4, 0, ids[i]} is at least ratio as a number in [0,
// 1).
void dropout(const Launch& launch, DType type, const void* x, void* y, std::int64_t items,
             const ExampleOrder& order, float ratio, const std::int64_t* seed,
             const std::int64_t* ids);

}  // namespace tasuki::kernels
