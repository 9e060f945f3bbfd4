#include "tensor/half.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <cstring>

#include "core/error.hpp"
#include "tensor/cpu/rounded_rows.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

void widen_float16(float* result, const std::uint16_t* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = float_from_half(x[i]);
}
void narrow_float16(std::uint16_t* result, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = half_from_float(x[i]);
}
TASUKI_VECTORIZE void widen_bfloat16(float* result, const std::uint16_t* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = float_from_bfloat16(x[i]);
}
TASUKI_VECTORIZE void narrow_bfloat16(std::uint16_t* result, const float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) result[i] = bfloat16_from_float(x[i]);
}

#if defined(__x86_64__)
// Processors since 2012 convert eight float16 at a time.
__attribute__((target("avx,f16c"))) void widen_float16_f16c(float* result, const std::uint16_t* x,
                                                            std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(result + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  widen_float16(result + i, x + i, count - i);
}
__attribute__((target("avx,f16c"))) void narrow_float16_f16c(std::uint16_t* result, const float* x,
                                                             std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(result + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  narrow_float16(result + i, x + i, count - i);
}

// Not every compiler's __builtin_cpu_supports knows f16c; "avx" says that the system saves the
// registers.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}

// Processors with AVX512_BF16 round 32 floats in one instruction, which takes subnormal ones for 0.
TASUKI_ROUNDING inline __mmask16 subnormal(__m512i bits) {
  const __mmask16 no_exponent = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
  return _mm512_mask_test_epi32_mask(no_exponent, bits, _mm512_set1_epi32(0x007fffff));
}
TASUKI_ROUNDING void narrow_bfloat16_avx512(std::uint16_t* result, const float* x,
                                            std::int64_t count) {
  constexpr std::int64_t lanes = 16, step = 2 * lanes;
  std::int64_t i = 0;
  for (; i + step <= count; i += step) {
    const __m512i low = _mm512_loadu_si512(x + i), high = _mm512_loadu_si512(x + i + lanes);
    if ((subnormal(low) | subnormal(high)) != 0) [[unlikely]] {
      narrow_bfloat16(result + i, x + i, step);
      continue;
    }
    const auto rounded = _mm512_cvtne2ps_pbh(_mm512_castsi512_ps(high), _mm512_castsi512_ps(low));
    std::memcpy(result + i, &rounded, sizeof rounded);
  }
  narrow_bfloat16(result + i, x + i, count - i);
}

bool has_avx512_bf16() {
  constexpr unsigned features = 7, more_features = 1, bf16 = 1U << 5;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
         __get_cpuid_count(features, more_features, &a, &b, &c, &d) != 0 && (a & bf16) != 0;
}
#endif

HalfFormat float16_format() {
#if defined(__x86_64__)
  // Asking the processor takes microseconds in a virtual machine.
  static const bool converts = has_f16c();
  if (converts) return {widen_float16_f16c, narrow_float16_f16c};
#endif
  return {widen_float16, narrow_float16};
}

HalfFormat bfloat16_format() {
#if defined(__x86_64__)
  static const bool rounds = has_avx512_bf16();
  if (rounds) return {widen_bfloat16, narrow_bfloat16_avx512};
#endif
  return {widen_bfloat16, narrow_bfloat16};
}

}  // namespace

HalfFormat half_format(DType type) {
  TASUKI_CHECK(has_16_bits(type), "a 16-bit format of {}", name_of(type));
  return type == DType::float16 ? float16_format() : bfloat16_format();
}

}  // namespace tasuki
