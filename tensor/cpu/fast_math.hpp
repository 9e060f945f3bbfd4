// Functions of float32 values that the compiler can vectorise: polynomials, and choices between
// values that are computed already. Inlined into loops under TASUKI_VECTORIZE. Subnormal numbers
// count as 0.
#pragma once

#include <cstdint>

namespace tasuki {

// What e^x is made of: x = n ln 2 + r, |r| <= ln 2 / 2.
struct ExpParts {
  float scale_bits;  // its low bits are n
  float r;
  float tail;  // e^r - 1 - r, by a polynomial with the coefficients of Cephes' expf
};

[[gnu::always_inline]] inline ExpParts exp_parts(float x) {
  const float shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to nearest
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return {shifted, r, p * r * r};
}

// 2^n for the number n in these bits. (std::bit_cast is not inlined into functions with target
// clones.)
[[gnu::always_inline]] inline float power_of_two(std::uint32_t n) {
  return __builtin_bit_cast(float, (n + 127) << 23);
}

// e^x for -87 <= x <= 0 within 2 units in the last place.
[[gnu::always_inline]] inline float fast_exp(float x) {
  const ExpParts parts = exp_parts(x);
  const float e = parts.tail + parts.r + 1.0f;
  return e * power_of_two(__builtin_bit_cast(std::uint32_t, parts.scale_bits));
}

// e^x for x <= 0 within 2 units in the last place; 0 below -87.
[[gnu::always_inline]] inline float limited_exp(float x) {
  const float e = fast_exp(x < -87.0f ? -87.0f : x);
  return x < -87.0f ? 0.0f : e;
}

// e^x for all x within 2 units in the last place; 0 below -87.3, infinite above 88.7.
[[gnu::always_inline]] inline float full_exp(float x) {
  const float above = x < -87.5f ? -87.5f : x;
  const ExpParts parts = exp_parts(above > 89.0f ? 89.0f : above);
  const float e = parts.tail + parts.r + 1.0f;
  // In two factors, because 2^128 is not a float although e^88.7 is one.
  const auto n =
      static_cast<std::int32_t>(__builtin_bit_cast(std::uint32_t, parts.scale_bits) - 0x4B400000U);
  const std::int32_t half = n >> 1;
  const float y = e * power_of_two(static_cast<std::uint32_t>(half)) *
                  power_of_two(static_cast<std::uint32_t>(n - half));
  const float upper = x > 88.722839f ? __builtin_inff() : y;
  return x < -87.336544f ? 0.0f : upper;
}

// e^x - 1 for x <= 0 within 1e-7 of its value or of 1, whichever is smaller.
[[gnu::always_inline]] inline float fast_expm1(float x) {
  const ExpParts parts = exp_parts(x < -87.0f ? -87.0f : x);
  const float scale = power_of_two(__builtin_bit_cast(std::uint32_t, parts.scale_bits));
  return (parts.tail + parts.r) * scale + (scale - 1.0f);
}

// ln x within 2 units in the last place (Cephes' logf: x = m 2^n, sqrt(1/2) <= m < sqrt(2)).
// -infinity at 0, NaN below.
[[gnu::always_inline]] inline float fast_log(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  // The exponent by which m is in that range: 0x3F3504F3 is sqrt(1/2).
  const std::uint32_t moved = bits - 0x3F3504F3U;
  const float n = static_cast<float>(static_cast<std::int32_t>(moved) >> 23);
  const float m = __builtin_bit_cast(float, (moved & 0x007FFFFFU) + 0x3F3504F3U) - 1.0f;
  const float square = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float tail = p * m * square + n * -2.12194440e-4f - 0.5f * square;
  const float y = (m + tail) + n * 0.693359375f;
  const float finite = x < __builtin_inff() ? y : x;  // infinity and NaN
  const float positive = x < 1.17549435e-38f ? -__builtin_inff() : finite;
  return x < 0.0f ? __builtin_nanf("") : positive;
}

// ln(1 + z) for 0 <= z <= 1 within 3 units in the last place: the rounding of 1 + z is divided out.
[[gnu::always_inline]] inline float fast_log1p(float z) {
  const float u = 1.0f + z;
  const float rounded = u - 1.0f;
  const float safe = rounded == 0.0f ? 1.0f : rounded;
  const float y = fast_log(u) * (z / safe);
  return rounded == 0.0f ? z : y;
}

// cos and sin of 2 pi t for -1/2 <= t <= 1/2 within 2e-7.
struct CosSin {
  float cos, sin;
};
[[gnu::always_inline]] inline CosSin fast_cos_sin(float t) {
  // An angle of at most pi / 2, and the sign that half a turn costs.
  const float turns = t > 0.25f ? 0.5f : (t < -0.25f ? -0.5f : 0.0f);
  const float sign = turns == 0.0f ? 1.0f : -1.0f;
  const float a = (t - turns) * 6.28318531f, s = a * a;
  float sin = -2.50521084e-8f;
  sin = sin * s + 2.75573192e-6f;
  sin = sin * s - 1.98412698e-4f;
  sin = sin * s + 8.33333333e-3f;
  sin = sin * s - 1.66666667e-1f;
  float cos = 2.08767570e-9f;
  cos = cos * s - 2.75573192e-7f;
  cos = cos * s + 2.48015873e-5f;
  cos = cos * s - 1.38888889e-3f;
  cos = cos * s + 4.16666667e-2f;
  cos = cos * s - 0.5f;
  return {sign * (1.0f + cos * s), sign * (a + a * s * sin)};
}

// 1 / (1 + e^-x); 0 below -87.
[[gnu::always_inline]] inline float fast_sigmoid(float x) {
  const float least = x < -87.0f ? -87.0f : x;
  const float y = 1.0f / (1.0f + fast_exp(-(least > 87.0f ? 87.0f : least)));
  return x < -87.0f ? 0.0f : y;
}

// The hyperbolic tangent of x within 2e-7 of its value.
[[gnu::always_inline]] inline float fast_tanh(float x) {
  const float e = fast_expm1(-2.0f * __builtin_fabsf(x));
  return __builtin_copysignf(-e / (2.0f + e), x);
}

// The standard normal distribution at x, both within 2e-7 and 0 far from 0: the probability of
// values below x (Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.2.17) and the
// density.
struct NormalDistribution {
  float probability, density;
};
// From e^(-x^2 / 2).
[[gnu::always_inline]] inline NormalDistribution normal_from_exp(float x, float exp) {
  const float density = 0.39894228f * exp;
  const float t = 1.0f / (1.0f + 0.2316419f * __builtin_fabsf(x));
  float p = 1.330274429f;
  p = p * t - 1.821255978f;
  p = p * t + 1.781477937f;
  p = p * t - 0.356563782f;
  p = p * t + 0.319381530f;
  const float tail = density * p * t;
  return {x < 0.0f ? tail : 1.0f - tail, density};
}
[[gnu::always_inline]] inline NormalDistribution normal_distribution(float x) {
  return normal_from_exp(x, limited_exp(-0.5f * x * x));
}

}  // namespace tasuki
