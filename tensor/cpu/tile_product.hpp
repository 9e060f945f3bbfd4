// Products of matrices of bfloat16 on AMX, with sums in float32.
//
// Both operands are copied into panels (tile_kernels.hpp): the one whose rows or columns become the
// right panels in parts that stay in the second cache, the other one in strips of two panels. The
// result is written from a block of sums in the first cache, which is where the bias, the clipping
// and the rounding are. Which operand is the left one is chosen by what packing costs: transposing
// takes longer than copying.
//
// The order of a sum depends on the number of its terms and on the result's type alone: terms are
// added one block of 32 after the other, and both roles of the operands give the same bits.
#pragma once

#include <cstdint>

#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/tile_kernels.hpp"

namespace tasuki {

// nullptr unless this processor has AMX for bfloat16 and lets this process use it. Says so in one
// line of the log, once, if only an alternate signal stack of some thread is too small for that.
const TileKernels* tile_kernels();
// Tests have kernels for any processor.
void set_tile_kernels(const TileKernels* kernels);

inline bool has_tiles() {
  return tile_kernels() != nullptr;
}

// c = scale a b + bias, and c itself if it accumulates; then clipped at 0 if `relu`.
struct TileProduct {
  std::int64_t m, n, k;  // of a: m x k, and of b: k x n; positive
  RoundedBlock a, b;
  void* c;
  std::int64_t c_step;  // elements between its rows
  bool rounds = false;  // c is of bfloat16; otherwise of float32
  float scale = 1;
  const float* bias = nullptr;  // n
  bool relu = false;
  bool accumulate = false;
};

// On up to cpu_threads() threads. Only where has_tiles().
void multiply_tiles(const TileProduct& product);

}  // namespace tasuki
