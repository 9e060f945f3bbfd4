// Values of CUDA's types as floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <library_types.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace tasuki::simulated {

enum class ValueType { float32, float16, bfloat16, unknown };

inline ValueType value_type(cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32F:
      return ValueType::float32;
    case CUDA_R_16F:
      return ValueType::float16;
    case CUDA_R_16BF:
      return ValueType::bfloat16;
    default:
      return ValueType::unknown;
  }
}

inline std::int64_t size_of(ValueType type) {
  return type == ValueType::float32 ? 4 : 2;
}

inline float load(ValueType type, const void* values, std::size_t i) {
  switch (type) {
    case ValueType::float16:
      return __half2float(static_cast<const __half*>(values)[i]);
    case ValueType::bfloat16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(values)[i]);
    default:
      return static_cast<const float*>(values)[i];
  }
}

// As tensor cores take float32 values: 10 bits of mantissa, to nearest, ties away from 0.
inline float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool is_finite = (bits & 0x7f800000U) != 0x7f800000U;
  return is_finite ? std::bit_cast<float>((bits + 0x1000U) & ~0x1fffU) : value;
}

inline void store(ValueType type, void* values, std::size_t i, float value) {
  switch (type) {
    case ValueType::float16:
      static_cast<__half*>(values)[i] = __float2half_rn(value);
      break;
    case ValueType::bfloat16:
      static_cast<__nv_bfloat16*>(values)[i] = __float2bfloat16_rn(value);
      break;
    default:
      static_cast<float*>(values)[i] = value;
  }
}

}  // namespace tasuki::simulated
