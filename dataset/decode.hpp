// Decodes values as stored to values as they are in batches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tensor/dtype.hpp"

namespace tasuki {

// Converts `count` values. uint8 to float32 is value / 255, rounded correctly; see Field::decoded
// for what else can be converted.
using Decoder = void (*)(const std::byte* values, std::byte* destination, std::int64_t count);
Decoder decoder_of(DType stored, DType decoded);

}  // namespace tasuki
