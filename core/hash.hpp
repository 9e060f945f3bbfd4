// 64-bit hashes of bytes and names: xxHash's XXH3, seeded but not secure, and SipHash, with a
// secret key.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;  // xxHash's

namespace tasuki {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t seed = 0);
std::uint64_t hash_text(std::string_view text);

// hash_bytes() for bytes that arrive in pieces.
class RunningHash {
 public:
  explicit RunningHash(std::uint64_t seed = 0);

  void add(std::span<const std::byte> bytes);
  // The hash of all bytes so far.
  std::uint64_t value() const;
  void begin(std::uint64_t seed);

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

// The hash of a file that is written or read from front to back: XXH3 of each mebibyte, seeded by
// the hash of those before; 0 of an empty file.
class FileHash {
 public:
  // The bytes that follow.
  void add(std::span<const std::byte> bytes);
  // Of all bytes so far.
  std::uint64_t value() const { return in_piece_ > 0 ? piece_.value() : before_; }

 private:
  RunningHash piece_;
  std::size_t in_piece_ = 0;  // bytes
  std::uint64_t before_ = 0;  // of all whole pieces
};

// 16 hexadecimal digits, and back: nothing for any other text.
std::string hash_digits(std::uint64_t hash);
std::optional<std::uint64_t> parse_hash(std::string_view digits);

// SipHash-2-4 by J.-P. Aumasson and D. J. Bernstein ("SipHash: a fast short-input PRF", 2012): it
// cannot be computed without the key, and does not reveal the key.
using SipKey = std::array<std::uint64_t, 2>;  // 128 bits, the low half first
std::uint64_t siphash(std::span<const std::byte> bytes, const SipKey& key);

}  // namespace tasuki
