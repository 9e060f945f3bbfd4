// Products of bfloat16 whose operands lie as AVX512_BF16 reads them: one instruction multiplies two
// neighbouring terms of a row by the same two terms of 16 columns, and adds both to 16 sums of
// float32. Nothing is copied first, so a few rows cost no more than their share of many.
#pragma once

#include <cstdint>

namespace tasuki {

// c = a b, or c += a b with `accumulate`. c has m rows of n columns of float32, `c_step` elements
// apart; n is a multiple of 16. A sum has 2 x `pairs` terms of bfloat16, added in their order.
struct PairProduct {
  std::int64_t m, n, pairs;
  // Pair p of row i: the two elements from a + i x a_row + p x a_pair on.
  const std::uint16_t* a;
  std::int64_t a_row, a_pair;
  // Pair p of column j: the two elements from b + p x b_pair + 2 j on.
  const std::uint16_t* b;
  std::int64_t b_pair;
  float* c;
  std::int64_t c_step;
  bool accumulate = false;
};

// Only where has_bfloat16_products().
void multiply_pairs(const PairProduct& product);

}  // namespace tasuki
