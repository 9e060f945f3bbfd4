// The kernels of tensor/cpu/tile_kernels.hpp without AMX.
#pragma once

#include "tensor/cpu/tile_kernels.hpp"

namespace tasuki {

// The library's kernels with instructions for tiles in software, for processors with AVX512_BF16.
// nullptr if not compiled for x86-64.
extern const TileKernels* const software_tile_kernels;

namespace testing {

// In plain loops, for any processor: tests of what is built on the kernels run everywhere.
extern const TileKernels tile_emulation;

}  // namespace testing
}  // namespace tasuki
