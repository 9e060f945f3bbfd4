// 16-bit floating point: conversions between the bits of IEEE binary16 or bfloat16 and float, to
// nearest, ties to even, of single values and of arrays.
#pragma once

#include <bit>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace tasuki {

inline float float_from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

inline std::uint16_t bfloat16_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float float_from_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, magnitude = bits & 0x7fffu;
  std::uint32_t out = (magnitude << 13) + 0x38000000u;  // the exponent's bias: 15 to 127
  if (magnitude >= 0x7c00u) {
    out += 0x38000000u;  // infinity and not-a-number
  } else if (magnitude < 0x400u) {
    // Subnormal: adds 2^-14 and subtracts it again, which normalises the number (a multiplication
    // would meet subnormal floats, which threads here treat as zero).
    out = std::bit_cast<std::uint32_t>(std::bit_cast<float>(out + 0x800000u) - 0x1p-14f);
  }
  return std::bit_cast<float>(out | sign);
}

inline std::uint16_t half_from_float(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  std::uint32_t out;
  if (magnitude > 0x7f800000u) {
    out = 0x7e00u;  // not-a-number
  } else if (magnitude >= 0x477ff000u) {
    out = 0x7c00u;  // rounds to infinity
  } else if (magnitude < 0x38800000u) {
    // Subnormal: adding 0.5 aligns the mantissa at 2^-24, and the addition rounds.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    out = std::bit_cast<std::uint32_t>(aligned) - 0x3f000000u;
  } else {
    out = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(out | sign);
}

// The conversions of arrays of one type, in vectorised loops. Arrays do not overlap.
struct HalfFormat {
  void (*widen)(float* result, const std::uint16_t* x, std::int64_t count);
  void (*narrow)(std::uint16_t* result, const float* x, std::int64_t count);
};

// float16 or bfloat16.
HalfFormat half_format(DType type);

}  // namespace tasuki
