// A kernel that loads 8 x 8 matrices for tensor cores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/cuda/launch.hpp"

namespace tasuki::testing {

// A warp loads four matrices whose rows follow each other in shared memory, the first `offset`
// bytes behind its beginning. Value i of these rows is i. `to`: four words of each lane, in device
// memory.
void load_rows(const Launch& launch, bool transposed, std::size_t offset, std::uint32_t* to);

}  // namespace tasuki::testing
