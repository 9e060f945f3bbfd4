// RoundedVector: float32 values of this rank that travel to other ranks in 16 bits each.
//
// Values are rounded when they are sent, and added in float32 when they arrive, so that a sum is
// rounded once for each message that it passes. A rank also rounds its own copy of what it sends
// and of what it has completed, so that all ranks end with the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "communicator/algorithms/wire_format.hpp"
#include "core/range.hpp"

namespace tasuki {

class RoundedVector {
 public:
  // Both outlive the vector; wire.is_rounded().
  RoundedVector(float* values, const Wire& wire);

  // Bytes of a message of these elements. It has the rounded ones first.
  std::int64_t bytes_of(Range range) const;
  // Adds the rounding errors of earlier exchanges to these values. Call it once before their first
  // use.
  void restore(Range range) const;
  // Rounds the values in place and, unless it is null, writes them to `message`, aligned to 4
  // bytes.
  void round(Range range, std::byte* message) const;
  // Puts the values of a message in the place of this rank's, or adds them.
  void replace(Range range, const std::byte* message) const;
  void add(Range range, const std::byte* message) const;

 private:
  Range rounded_part(Range range) const;
  Range exact_part(Range range) const;
  std::int64_t place_of_exact(Range range) const;  // in bytes from a message's first

  float* values_;
  Wire wire_;
};

}  // namespace tasuki
