#include "peak_rates.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tensor/cpu/dnnl_interface.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>
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

// Tiles of 16 rows x 64 bytes: 2 x 2 sums, and 2 tiles of each operand, loaded for every 4
// products.
constexpr int tile_rows = 16, tile_bytes = 64, tile_rounds = rounds / 16;

bool may_use_tiles() {
  constexpr int request_permission = 0x1023, tile_data = 18;  // arch_prctl(2), ARCH_REQ_XCOMP_PERM
  return ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

__attribute__((target("amx-tile,amx-bf16"))) void multiply_tiles(const std::uint16_t* operands) {
  struct alignas(64) {
    std::uint8_t palette = 1, start = 0, reserved[14] = {};
    std::uint16_t bytes[16] = {};
    std::uint8_t rows[16] = {};
  } shapes;
  for (int tile = 0; tile < 8; ++tile) {
    shapes.bytes[tile] = tile_bytes;
    shapes.rows[tile] = tile_rows;
  }
  // GCC 12's _tile_loadconfig() does not say that it reads the whole object.
  asm volatile("ldtilecfg %0" : : "m"(shapes));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  constexpr int elements = tile_rows * tile_bytes / 2;
  for (int round = 0; round < tile_rounds; ++round) {
    _tile_loadd(4, operands, tile_bytes);
    _tile_loadd(5, operands + elements, tile_bytes);
    _tile_loadd(6, operands + 2 * elements, tile_bytes);
    _tile_loadd(7, operands + 3 * elements, tile_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
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
  if (has_instructions(dnnl::cpu_isa::avx512_core_amx) && may_use_tiles()) {
    // Not zeros, with which the processor needs less power and so is faster.
    constexpr std::uint16_t half = 0x3f00;
    struct alignas(tile_bytes) Operands {
      std::uint16_t values[4 * tile_rows * tile_bytes / 2];
    };
    const auto operands = std::make_unique<Operands>();
    std::ranges::fill(operands->values, half);
    const double products = 2.0 * 16 * 16 * 32 * 4;
    return best_rate(products * tile_rounds, [&] { multiply_tiles(operands->values); });
  }
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
