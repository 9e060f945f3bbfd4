// Values of CUDA's types as floats.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <library_types.h>

#include <cstddef>

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
