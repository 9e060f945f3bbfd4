#include "tensor/cpu/pair_kernels.hpp"

#include <cstring>

#include "tensor/cpu/rounded_rows.hpp"

namespace tasuki {
namespace {

// A block of sums stays in registers: 6 rows of 64 columns are 24 of AVX-512's 32, which leaves
// room for a pair of each column, and hides the instruction's latency of 6 cycles.
constexpr int block_rows = 6, block_vectors = 4;

// sums += the products of a pair of terms, `a` for all 16 columns.
[[gnu::always_inline]] inline Row add_pair(Row sums, std::uint32_t a, RowBits b) {
#if defined(__x86_64__)
  const __m512i repeated = _mm512_set1_epi32(static_cast<int>(a));
  return __builtin_bit_cast(Row, _mm512_dpbf16_ps(__builtin_bit_cast(__m512, sums),
                                                  __builtin_bit_cast(__m512bh, repeated),
                                                  __builtin_bit_cast(__m512bh, b)));
#else
  const auto first = [](RowBits pair) { return __builtin_bit_cast(Row, pair << 16); };
  const auto second = [](RowBits pair) { return __builtin_bit_cast(Row, pair & 0xffff0000U); };
  const RowBits repeated = RowBits{} + a;
  return sums + first(repeated) * first(b) + second(repeated) * second(b);
#endif
}

// `rows` rows from `row` on of `vectors` x 16 columns from `column` on.
template <int rows, int vectors>
void multiply_block(const PairProduct& product, std::int64_t row, std::int64_t column) {
  const std::uint16_t* a = product.a + row * product.a_row;
  const std::uint16_t* b = product.b + 2 * column;
  float* const c = product.c + row * product.c_step + column;
  // Unrolled, or the sums would be an array in memory.
  Row sums[rows][vectors];
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j)
      sums[i][j] = product.accumulate ? load_row(c + i * product.c_step + j * row_lanes) : Row{};
  for (std::int64_t p = 0; p < product.pairs; ++p, a += product.a_pair, b += product.b_pair) {
    RowBits columns[vectors];
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) std::memcpy(&columns[j], b + 2 * j * row_lanes, sizeof(Row));
#pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
      std::uint32_t pair;
      std::memcpy(&pair, a + i * product.a_row, sizeof pair);
#pragma GCC unroll 4
      for (int j = 0; j < vectors; ++j) sums[i][j] = add_pair(sums[i][j], pair, columns[j]);
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < rows; ++i)
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) store_row(sums[i][j], c + i * product.c_step + j * row_lanes);
}

// Rows from `row` on, in blocks of `rows` and then of fewer.
template <int rows, int vectors>
void multiply_rows(const PairProduct& product, std::int64_t row, std::int64_t column) {
  for (; row + rows <= product.m; row += rows) multiply_block<rows, vectors>(product, row, column);
  if constexpr (rows > 1)
    if (row < product.m)
      multiply_rows<rows == block_rows ? 4 : rows / 2, vectors>(product, row, column);
}

}  // namespace

void multiply_pairs(const PairProduct& product) {
  for (std::int64_t column = 0; column < product.n; column += block_vectors * row_lanes)
    switch ((product.n - column) / row_lanes) {
      case 1:
        multiply_rows<block_rows, 1>(product, 0, column);
        break;
      case 2:
        multiply_rows<block_rows, 2>(product, 0, column);
        break;
      case 3:
        multiply_rows<block_rows, 3>(product, 0, column);
        break;
      default:
        multiply_rows<block_rows, block_vectors>(product, 0, column);
    }
}

}  // namespace tasuki
