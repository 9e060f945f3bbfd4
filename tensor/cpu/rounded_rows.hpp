// Rows of 16 channels of bfloat16 as vectors of floats, for loops that only processors with
// AVX512_BF16 run (has_bfloat16_products).
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <cstdint>
#include <cstring>

#include "tensor/half.hpp"

namespace tasuki {

inline constexpr std::int64_t row_lanes = 16;

using Row = float __attribute__((vector_size(row_lanes * sizeof(float))));
using RowBits = std::uint32_t __attribute__((vector_size(row_lanes * sizeof(float))));
using RowHalves = std::uint16_t __attribute__((vector_size(row_lanes * sizeof(std::uint16_t))));

// How vectors are passed depends on the processor, which does not matter to inlined functions.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"
#endif

// Before a function: it is compiled for processors that round to bfloat16 in one instruction.
#if defined(__x86_64__)
#define TASUKI_ROUNDING __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
#else
#define TASUKI_ROUNDING
#endif

[[gnu::always_inline]] TASUKI_ROUNDING inline Row load_row(const std::uint16_t* from) {
  RowHalves halves;
  std::memcpy(&halves, from, sizeof halves);
  return __builtin_bit_cast(Row, __builtin_convertvector(halves, RowBits) << 16);
}
[[gnu::always_inline]] TASUKI_ROUNDING inline Row load_row(const float* from) {
  Row row;
  std::memcpy(&row, from, sizeof row);
  return row;
}
[[gnu::always_inline]] TASUKI_ROUNDING inline void store_row(Row value, std::uint16_t* to) {
#if defined(__x86_64__)
  const auto halves = _mm512_cvtneps_pbh(__builtin_bit_cast(__m512, value));
#else
  RowHalves halves;
  for (std::int64_t lane = 0; lane < row_lanes; ++lane)
    halves[lane] = bfloat16_from_float(value[lane]);
#endif
  std::memcpy(to, &halves, sizeof halves);
}
// Pairs of two rows: each channel of the first and of the second one side by side.
[[gnu::always_inline]] TASUKI_ROUNDING inline void store_pairs(Row first, Row second,
                                                               std::uint16_t* to) {
#if defined(__x86_64__)
  const __m512i places =
      _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const auto rounded =
      _mm512_cvtne2ps_pbh(__builtin_bit_cast(__m512, second), __builtin_bit_cast(__m512, first));
  const __m512i pairs = _mm512_permutexvar_epi16(places, __builtin_bit_cast(__m512i, rounded));
#else
  std::uint16_t pairs[2 * row_lanes];
  for (std::int64_t lane = 0; lane < row_lanes; ++lane) {
    pairs[2 * lane] = bfloat16_from_float(first[lane]);
    pairs[2 * lane + 1] = bfloat16_from_float(second[lane]);
  }
#endif
  std::memcpy(to, &pairs, sizeof pairs);
}
[[gnu::always_inline]] TASUKI_ROUNDING inline void store_row(Row value, float* to) {
  std::memcpy(to, &value, sizeof value);
}

}  // namespace tasuki
