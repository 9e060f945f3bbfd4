// RoundedVector: float32 values of this rank that travel to other ranks in 16 bits each.
//
// Values are rounded when they are sent, and added in float32 when they arrive, so a sum is rounded
// once for each message that carries it. A rank also rounds its own copy of values that it sends or
// has completed, so that all ranks end with the same bits.
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

  // The number of bytes of a message of these elements; rounded elements come first in it.
  std::int64_t bytes_of(Range range) const;
  // Adds the rounding errors of earlier exchanges to these values. Call it once before their first
  // use.
  void restore(Range range) const;
  // Rounds the values in place and, unless it is null, writes them to `message`, aligned to 4
  // bytes.
  void round(Range range, std::byte* message) const;
  // Replaces this rank's values by the values of a message, or adds these.
  void replace(Range range, const std::byte* message) const;
  void add(Range range, const std::byte* message) const;

 private:
  Range rounded_part(Range range) const;
  Range exact_part(Range range) const;
  std::int64_t place_of_exact(Range range) const;  // in bytes from the begin of a message

  float* values_;
  Wire wire_;
};

}  // namespace tasuki
