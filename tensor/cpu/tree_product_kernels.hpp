// The innermost loop of multiply_in_tree(), compiled for several processors.
#pragma once

#include <cstdint>

namespace tasuki {

// A product of the tree: its number of rows, and how many sums end with it.
struct TreeRows {
  std::int64_t rows;
  int merges;
};

// A few rows and columns of the sum of all products. `a` and `b` have the rows of all products one
// after the other, tile_rows floats each and a few vectors. `waiting` has room for as many tiles as
// sums wait for their siblings. The tile is written to `c`, whose rows are `c_step` floats apart.
struct TreeTile {
  const TreeRows* products;
  std::int64_t count;
  const float *a, *b;
  float* waiting;
  float* c;
  std::int64_t c_step;
};

struct TreeKernels {
  static constexpr int most_vectors = 4;

  std::int64_t tile_rows;
  std::int64_t width;    // floats of a vector
  std::int64_t vectors;  // the most of a tile's row
  // run[v - 1]: tiles of v vectors.
  void (*run[most_vectors])(const TreeTile&);
  // Copies tile_rows floats each from `count` places that are `step` floats apart.
  void (*copy_rows)(const float* from, std::int64_t step, std::int64_t count, float* to);
};

extern const TreeKernels tree_kernels_baseline, tree_kernels_avx2, tree_kernels_avx512;
// The best ones for this processor.
const TreeKernels& tree_kernels();

}  // namespace tasuki
