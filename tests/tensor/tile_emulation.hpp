// The kernels of tensor/cpu/tile_kernels.hpp in plain loops, for any processor: tests of what is
// built on them run everywhere.
#pragma once

#include "tensor/cpu/tile_kernels.hpp"

namespace tasuki::testing {

extern const TileKernels tile_emulation;

}  // namespace tasuki::testing
