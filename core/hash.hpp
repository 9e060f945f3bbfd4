// 64-bit hashes (xxHash's XXH3) of bytes and names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tasuki {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_text(std::string_view text);

}  // namespace tasuki
