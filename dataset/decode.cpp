#include "dataset/decode.hpp"

#include <cstring>

#include "core/error.hpp"
#include "tensor/half.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

TASUKI_VECTORIZE
void decode_pixels(const std::uint8_t* values, float* destination, std::int64_t count) {
  // 1 / 255 = 0x1.01010101...p-8 in two parts: the product with the first part is exact, so the sum
  // rounds like the quotient for each of the 256 values, in a fraction of a division's time.
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(values[i]);
    destination[i] = value * 0x1.01p-8f + value * 0x1.010102p-24f;
  }
}

template <std::size_t bytes>
void copy(const std::byte* values, std::byte* destination, std::int64_t count) {
  // A label: a call would cost more than copying its few bytes.
  if (count == 1)
    std::memcpy(destination, values, bytes);
  else if (count > 0)
    std::memcpy(destination, values, static_cast<std::size_t>(count) * bytes);
}

template <class From, class To, class Convert>
void convert(const std::byte* values, std::byte* destination, std::int64_t count,
             const Convert& one) {
  auto* const to = reinterpret_cast<To*>(destination);
  const auto* const from = reinterpret_cast<const From*>(values);
  for (std::int64_t i = 0; i < count; ++i) to[i] = one(from[i]);
}

}  // namespace

Decoder decoder_of(DType stored, DType decoded) {
  if (stored == decoded) {
    switch (size_of(stored)) {
      case 1:
        return copy<1>;
      case 2:
        return copy<2>;
      case 4:
        return copy<4>;
      default:
        return copy<8>;
    }
  }
  if (stored == DType::uint8 && decoded == DType::float32)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      decode_pixels(reinterpret_cast<const std::uint8_t*>(values),
                    reinterpret_cast<float*>(destination), count);
    };
  if (stored == DType::uint8 && decoded == DType::int32)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      convert<std::uint8_t, std::int32_t>(values, destination, count,
                                          [](auto value) { return std::int32_t{value}; });
    };
  if (stored == DType::uint8 && decoded == DType::int64)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      convert<std::uint8_t, std::int64_t>(values, destination, count,
                                          [](auto value) { return std::int64_t{value}; });
    };
  if (stored == DType::float64 && decoded == DType::float32)
    return [](const std::byte* values, std::byte* destination, std::int64_t count) {
      convert<double, float>(values, destination, count,
                             [](double value) { return static_cast<float>(value); });
    };
  TASUKI_CHECK(stored == DType::float16 && decoded == DType::float32,
               "values stored as {} cannot be decoded to {}", name_of(stored), name_of(decoded));
  return [](const std::byte* values, std::byte* destination, std::int64_t count) {
    convert<std::uint16_t, float>(values, destination, count, float_from_half);
  };
}

}  // namespace tasuki
