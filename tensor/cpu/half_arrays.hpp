// Conversions of whole arrays between float32 and the 16-bit types, in vectorised loops.
#pragma once

#include <cstdint>

#include "tensor/dtype.hpp"

namespace tasuki {

// The conversions of one type, to nearest, ties to even (half.hpp). Arrays do not overlap.
struct HalfFormat {
  void (*widen)(float* result, const std::uint16_t* x, std::int64_t count);
  void (*narrow)(std::uint16_t* result, const float* x, std::int64_t count);
};

// float16 or bfloat16.
HalfFormat half_format(DType type);

}  // namespace tasuki
