// The library's own kernels for AMX (tensor/cpu/tile_kernels_amx.cpp) with instructions for tiles
// in software, for processors that have AVX512_BF16 and no AMX.
#define tile_kernels_amx software_tile_kernels
#include "tensor/cpu/tile_kernels.hpp"

#if defined(__AMX_BF16__)

// As in the library's file, whose own line finds the header read.
#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

namespace {

constexpr int rows = 16, columns = 16;  // of 32 bits

// A tile's rows. Registers of a thread that has not loaded a configuration have none.
struct Tile {
  __m512i row[rows];
};
thread_local Tile tiles[8];
thread_local bool is_configured = false;

void check_configured() {
  if (!is_configured) __builtin_trap();
}

void load(int tile, const void* from, std::int64_t step) {
  check_configured();
  for (int i = 0; i < rows; ++i)
    tiles[tile].row[i] = _mm512_loadu_si512(static_cast<const char*>(from) + i * step);
}

void store(int tile, void* to, std::int64_t step) {
  check_configured();
  for (int i = 0; i < rows; ++i)
    _mm512_storeu_si512(static_cast<char*>(to) + i * step, tiles[tile].row[i]);
}

void clear(int tile) {
  check_configured();
  for (__m512i& row : tiles[tile].row) row = _mm512_setzero_si512();
}

__m512 low(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
__m512 high(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_srli_epi32(pairs, 16), 16));
}

void multiply_add(int sums, int left, int right) {
  check_configured();
  for (int i = 0; i < rows; ++i) {
    __m512 sum = _mm512_castsi512_ps(tiles[sums].row[i]);
    alignas(64) std::int32_t pairs[columns];
    _mm512_store_si512(pairs, tiles[left].row[i]);
    for (int k = 0; k < columns; ++k) {
      const __m512i pair = _mm512_set1_epi32(pairs[k]);
      sum = _mm512_fmadd_ps(low(pair), low(tiles[right].row[k]), sum);
      sum = _mm512_fmadd_ps(high(pair), high(tiles[right].row[k]), sum);
    }
    tiles[sums].row[i] = _mm512_castps_si512(sum);
  }
}

}  // namespace

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(shapes) (static_cast<void>(shapes), is_configured = true)
#define _tile_release() (is_configured = false)
#define _tile_zero(tile) clear(tile)
#define _tile_loadd(tile, from, step) load(tile, from, step)
#define _tile_stored(tile, to, step) store(tile, to, step)
#define _tile_dpbf16ps(sums, left, right) multiply_add(sums, left, right)

#endif

#include "tensor/cpu/tile_kernels_amx.cpp"  // NOLINT(bugprone-suspicious-include)
