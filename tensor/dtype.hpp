// Element types of tensors and messages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tasuki {

enum class DType : std::uint8_t { float32, float64, float16, bfloat16, int32, int64, uint8 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::float64:
    case DType::int64:
      return 8;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float16:
    case DType::bfloat16:
      return 2;
    case DType::uint8:
      return 1;
  }
  return 0;
}

constexpr bool has_16_bits(DType type) {
  return type == DType::float16 || type == DType::bfloat16;
}
// Types of activations.
constexpr bool is_activation_type(DType type) {
  return type == DType::float32 || has_16_bits(type);
}
constexpr bool is_floating(DType type) {
  return is_activation_type(type) || type == DType::float64;
}

// "float32" and so on, NumPy's names.
const char* name_of(DType type);

// The DType of a C++ type: dtype_of<float>.
template <class T>
inline constexpr DType dtype_of = T::tasuki_dtype;
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<double> = DType::float64;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::int32;
template <>
inline constexpr DType dtype_of<std::int64_t> = DType::int64;
template <>
inline constexpr DType dtype_of<std::uint8_t> = DType::uint8;

}  // namespace tasuki
