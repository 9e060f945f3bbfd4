#include "peak_rates.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "tensor/cpu/dnnl_interface.hpp"
#include "tensor/cpu/tile_product.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tasuki::bench {
namespace {

// Of the attempts of half a second, the fastest: others were interrupted.
template <class Work>
double best_rate(double amount, const Work& work) {
  using Clock = std::chrono::steady_clock;
  double best = 0;
  const Clock::time_point begin = Clock::now();
  while (Clock::now() - begin < std::chrono::milliseconds(500)) {
    const Clock::time_point start = Clock::now();
    work();
    const std::chrono::duration<double> seconds = Clock::now() - start;
    best = std::max(best, amount / seconds.count());
  }
  return best;
}

constexpr int rounds = 200000;
volatile float result;  // keeps the compiler from leaving loops out

#if defined(__x86_64__)
// Sums that do not depend on each other hide the latency of an instruction.
constexpr int sums = 12;

__attribute__((target("avx512f"))) void multiply_add_512() {
  __m512 sum[sums];
  for (int i = 0; i < sums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 a = _mm512_set1_ps(0.5f), b = _mm512_set1_ps(0.25f);
  for (int round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) sum[i] = _mm512_fmadd_ps(sum[i], a, b);
  for (int i = 0; i < sums; ++i) result = sum[i][0];
}

__attribute__((target("avx2,fma"))) void multiply_add_256() {
  __m256 sum[sums];
  for (int i = 0; i < sums; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 a = _mm256_set1_ps(0.5f), b = _mm256_set1_ps(0.25f);
  for (int round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) sum[i] = _mm256_fmadd_ps(sum[i], a, b);
  for (int i = 0; i < sums; ++i) result = sum[i][0];
}

__attribute__((target("avx512f,avx512bf16"))) void multiply_pairs() {
  __m512 sum[sums];
  for (int i = 0; i < sums; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  for (int round = 0; round < rounds; ++round)
#pragma GCC unroll 12
    for (int i = 0; i < sums; ++i) sum[i] = _mm512_dpbf16_ps(sum[i], a, a);
  for (int i = 0; i < sums; ++i) result = sum[i][0];
}

// 2 x 2 sums of the same tiles, which are loaded for every 4 products and stay in the first cache.
double tile_rate(const TileKernels& kernels) {
  // Not zeros, with which the processor needs less power and so is faster.
  constexpr std::uint16_t half = 0x3f00;
  struct alignas(64) Operands {
    std::uint16_t tiles[4][TileKernels::block_elements];
    float sums[4 * TileKernels::panel * TileKernels::panel];
  };
  const auto operands = std::make_unique<Operands>();
  std::ranges::fill(std::span(operands->tiles[0], 4 * TileKernels::block_elements), half);
  constexpr std::int64_t blocks = 10000, panel = TileKernels::panel;
  const std::vector<std::int64_t> offsets(blocks);
  const TileSums sum = {.left = {operands->tiles[0], operands->tiles[1]},
                        .left_step = TileKernels::terms,
                        .left_offsets = offsets.data(),
                        .right = {operands->tiles[2], operands->tiles[3]},
                        .right_step = 0,
                        .blocks = blocks,
                        .sums = operands->sums,
                        .sums_step = 2 * panel,
                        .adds = false};
  kernels.begin();
  const double found = best_rate(2.0 * 4 * panel * panel * TileKernels::terms * blocks,
                                 [&] { kernels.sum(sum, {}); });
  kernels.end();
  return found;
}
#endif

}  // namespace

double float32_rate() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f"))
    return best_rate(2.0 * 16 * sums * rounds, multiply_add_512);
  if (__builtin_cpu_supports("avx2")) return best_rate(2.0 * 8 * sums * rounds, multiply_add_256);
#endif
  return 0;
}

double bfloat16_rate() {
#if defined(__x86_64__)
  if (has_tiles()) return tile_rate(*tile_kernels());
  if (has_instructions(dnnl::cpu_isa::avx512_core_bf16))
    return best_rate(2.0 * 32 * sums * rounds, multiply_pairs);
#endif
  return 0;
}

double copy_rate() {
  constexpr std::size_t bytes = std::size_t{8} << 20;
  std::vector<char> from(bytes, 1), to(bytes, 2);
  return best_rate(2.0 * bytes, [&] {
    std::memcpy(to.data(), from.data(), bytes);
    result = static_cast<float>(to[bytes / 2]);
  });
}

}  // namespace tasuki::bench
