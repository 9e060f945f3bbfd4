// The kernels of tensor/cpu/tile_kernels.hpp without AMX.
#pragma once

#include "tensor/cpu/tile_product.hpp"

namespace tasuki {

// The library's kernels with instructions for tiles in software, for processors with AVX512_BF16.
// nullptr if not compiled for x86-64.
extern const TileKernels* const software_tile_kernels;

namespace testing {

// In plain loops, for any processor: tests of what is built on the kernels run everywhere. A thread
// that multiplies without having begun, or begins twice, is an error, because a processor's tiles
// have to be configured in between.
extern const TileKernels tile_emulation;

// Products of bfloat16 use these kernels as long as it lives.
class EmulatedTiles {
 public:
  explicit EmulatedTiles(const TileKernels* kernels = &tile_emulation) {
    set_tile_kernels(kernels);
  }
  ~EmulatedTiles() { set_tile_kernels(found_); }
  EmulatedTiles(const EmulatedTiles&) = delete;
  EmulatedTiles& operator=(const EmulatedTiles&) = delete;

 private:
  const TileKernels* found_ = tile_kernels();
};

}  // namespace testing
}  // namespace tasuki
