// WireFormat: how float32 values travel between GPUs.
#pragma once

#include "tasuki/tensor/dtype.hpp"

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
// about 1 / terms and at most 1 / ranks, so that roughly the means travel. It is a power of two,
// which loses no bits, and at least 2^-14, so that small integers stay exact. bfloat16 has the
// range of float32 and needs no factor.
WireFormat wire_format(DType dtype, int ranks, double terms);

}  // namespace tasuki
