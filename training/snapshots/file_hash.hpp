// The hash of a file that is written or read from front to back: XXH3 of each mebibyte, seeded by
// the hash of those before; 0 of an empty file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/hash.hpp"

namespace tasuki {

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

}  // namespace tasuki
