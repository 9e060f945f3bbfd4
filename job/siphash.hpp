// SipHash-2-4 of J.-P. Aumasson and D. J. Bernstein ("SipHash: a fast short-input PRF", 2012): a
// short keyed hash that whoever does not have the key can neither compute nor learn the key from.
// (XXH3, in core/hash.hpp, has seeds but is no such thing.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tasuki {

using SipKey = std::array<std::uint64_t, 2>;  // 128 bits, the low half first

std::uint64_t siphash(std::span<const std::byte> bytes, const SipKey& key);

}  // namespace tasuki
