// WireFormat: the format in which float32 values travel between ranks.
#pragma once

#include <cstdint>
#include <limits>

#include "tensor/dtype.hpp"

namespace tasuki {

// Values are multiplied by `factor`, rounded to `dtype`, combined, and divided by the factor again.
struct WireFormat {
  DType dtype = DType::float32;
  float factor = 1;
};

// The format in which `ranks` ranks sum gradients as `dtype`. `terms` is about the number of terms
// of a sum on all ranks (GradientView::wire_scale_hint); 0: unknown.
//
// float16 overflows above 65504, which sums over many examples soon reach. Its factor is therefore
// about 1 / terms and at most 1 / ranks, so that roughly means travel. It is a power of two, which
// loses no bits, and at least 2^-14, so that small integers stay exact. bfloat16 has the range of
// float32 and needs no factor.
WireFormat wire_format(DType dtype, int ranks, double terms);

// How a vector of float32 values travels between CPUs (rounded_vector.hpp).
struct Wire {
  WireFormat format{};
  // Elements from this one on are not rounded.
  std::int64_t exact_from = std::numeric_limits<std::int64_t>::max();
  // For each element, the error that rounding made in this rank's values and sums. The next
  // exchange adds it to the values (error feedback). Null: errors are lost.
  float* residual = nullptr;

  bool is_rounded() const { return format.dtype != DType::float32; }
  // The type in which values of `type` travel: only float32 is rounded.
  DType type_of(DType type) const { return type == DType::float32 ? format.dtype : type; }
  // The Wire of the part of the vector from this element on.
  Wire from(std::int64_t element) const;
};

}  // namespace tasuki
