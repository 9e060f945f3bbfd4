// From values as stored to float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tasuki/tensor/dtype.hpp"

namespace tasuki {

// uint8: x / 255, rounded correctly; float32: as it is. Other types are an internal error.
void decode(const std::byte* values, DType stored, float* destination, std::int64_t count);

}  // namespace tasuki
