// The inner loops of tile_product.hpp, compiled for processors with AMX.
//
// AMX multiplies tiles: 16 rows of 32 bfloat16 by 16 pairs of rows of 16, into 16 x 16 sums of
// float32, in 16 cycles. Both operands are copied into panels of 16 rows (of the left one) or
// columns (of the right one), block by block of 32 terms, 1 KiB each: blocks of the left operand
// are 16 x 32 elements, row by row; of the right one 16 x 16 x 2, pairs of terms together. What a
// panel has beyond the operand is 0.
#pragma once

#include <cstdint>

namespace tasuki {

// Rows or columns of an operand in memory, of 16 bits.
struct TileOperand {
  const std::uint16_t* values;
  std::int64_t step;   // elements from one row of memory to the next
  bool rows_are_sums;  // the terms of a sum lie side by side in memory; otherwise a row apart
};

// Where a block of 32 x 32 sums goes, and what happens to them on the way.
struct TileResult {
  void* c;
  std::int64_t step;           // elements between rows
  std::int64_t rows, columns;  // at most 32 each
  bool rounds;                 // c is bfloat16; otherwise float32
  bool transposed;             // rows of sums are columns of c
  bool accumulate;             // adds what is in c
  bool relu;                   // clips at 0, after all sums
  float scale;                 // of the products
  const float* bias;           // of the block's columns, or nullptr
};

// Sums of a block, and where they go.
struct TileBlock {
  alignas(64) float sums[32 * 32];
  TileResult to;  // without rows: nothing is written
};

// 32 x 32 sums of products of tiles that lie where they are: two left tiles, 16 rows that are
// `left_step` elements apart, by two right blocks; block i of them at left_offsets[i] and i x
// right_step.
struct TileSums {
  const std::uint16_t* left[2];
  std::int64_t left_step;
  const std::int64_t* left_offsets;
  const std::uint16_t* right[2];
  std::int64_t right_step;
  std::int64_t blocks;
  float* sums;  // rows sums_step apart
  std::int64_t sums_step;
  bool adds;  // begins with the sums that are there
};

// Sums of `count` positions, at most 32, in rows of 32 channels, and where they go: position i to
// pixel pixels[i] of both blocks of 16 channels, or nowhere if that is negative.
struct TilePixels {
  std::int64_t count;
  const float* sums;
  const std::int32_t* pixels;
  std::uint16_t* blocks[2];
  const float* bias;  // of 32 channels
};

struct TileKernels {
  static constexpr std::int64_t panel = 16;  // rows or columns
  static constexpr std::int64_t terms = 32;  // of a block
  static constexpr std::int64_t block_elements = panel * terms;

  // Before and after a thread calls multiply() and sum(), around other users of tiles.
  void (*begin)();
  void (*end)();
  // Copies `count` rows or columns of `sums` terms into panels, of (sums + 31) / 32 blocks each.
  void (*pack_left)(const TileOperand& from, std::int64_t count, std::int64_t sums,
                    std::uint16_t* to);
  void (*pack_right)(const TileOperand& from, std::int64_t count, std::int64_t sums,
                     std::uint16_t* to);
  // Sums of one or two panels (up to 32 rows or columns) of each operand, in block.sums. Writes
  // `before` meanwhile.
  void (*multiply)(const std::uint16_t* left, bool two_left, const std::uint16_t* right,
                   bool two_right, std::int64_t blocks, TileBlock& block, const TileBlock& before);
  void (*write)(const TileBlock& block);
  // Writes `before` meanwhile.
  void (*sum)(const TileSums& sums, const TilePixels& before);
  void (*write_pixels)(const TilePixels& pixels);
};

extern const TileKernels* const tile_kernels_amx;  // nullptr if not compiled for x86-64

}  // namespace tasuki
