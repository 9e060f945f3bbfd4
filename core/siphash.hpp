// SipHash-2-4 by J.-P. Aumasson and D. J. Bernstein ("SipHash: a fast short-input PRF", 2012): a
// keyed hash that cannot be computed without the key and does not reveal it. (XXH3, in
// core/hash.hpp, has seeds but no such guarantees.)
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tasuki {

using SipKey = std::array<std::uint64_t, 2>;  // 128 bits, the low half first

std::uint64_t siphash(std::span<const std::byte> bytes, const SipKey& key);

}  // namespace tasuki
