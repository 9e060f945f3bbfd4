// A sum of matrix products in the order of a tree, in one pass over the result's memory.
#pragma once

#include <cstdint>
#include <span>

namespace tasuki {

// a^T b: `a` is rows x m, `b` rows x n, both row-major float32. `merges` as in sum_in_tree().
struct TreeProduct {
  const float *a, *b;
  std::int64_t rows;
  int merges;
};

// Writes the sum of all products, m x n and row-major, to `c`, in the calling thread. All products
// end in one sum; none overlaps `c`. An element of a product is a chain of additions in the order
// of its rows, by fused multiply-adds with AVX2 and AVX-512. So its bits depend neither on m and n
// nor on what other products there are, and are the same with AVX2 as with AVX-512.
void multiply_in_tree(std::span<const TreeProduct> products, std::int64_t m, std::int64_t n,
                      float* c);

}  // namespace tasuki
