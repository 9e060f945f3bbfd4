// WireFormat: how float32 values travel between GPUs.
#pragma once

#include "tasuki/tensor/dtype.hpp"

namespace tasuki {

// Values are multiplied by `factor`, rounded to `dtype`, combined, and divided by the factor again.
struct WireFormat {
  DType dtype = DType::float32;
  float factor = 1;
};

// The format in which `ranks` ranks sum gradients as `dtype`. `divisor` is the number that the sums
// will be divided by; 0: unknown.
//
// float16 overflows above 65504, which sums over many examples soon reach. Its factor is therefore
// about 1 / divisor and at most 1 / ranks, so that roughly the means travel. It is a power of two,
// which loses no bits, and at least 2^-14, so that small integers stay exact. bfloat16 has the
// range of float32 and needs no factor.
WireFormat wire_format(DType dtype, int ranks, double divisor);

}  // namespace tasuki
