// Numbers as bytes to send, and back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tasuki/communicator/communicator.hpp"

namespace tasuki {

Bytes encode_numbers(std::span<const std::int64_t> numbers);
std::vector<std::int64_t> decode_numbers(std::span<const std::byte> bytes);

}  // namespace tasuki
