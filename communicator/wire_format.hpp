// How float32 values travel between GPUs.
#pragma once

#include <string_view>

#include "tasuki/tensor/dtype.hpp"

namespace tasuki {

// Values are multiplied by `factor`, rounded to `dtype`, combined, and divided by the factor again.
struct WireFormat {
  DType dtype = DType::float32;
  float factor = 1;
};

// The format in which `ranks` ranks sum gradients as `dtype`. float16 ends at 65504, which sums
// over many examples pass soon: what travels are then their means, or nearly so, as the factor is a
// power of two (exact, both ways) of 1 / divisor and at most 1 / ranks. It is at least 2^-14, with
// which small whole numbers, too, come through. `divisor` is what the sums will be divided by, 0 if
// that is not known. bfloat16 has float32's range and needs no factor.
WireFormat wire_format(DType dtype, int ranks, double divisor);

// "fp32", "fp16" and "bf16", as in --wire-dtype; another name is a usage error.
DType wire_dtype(std::string_view name);

}  // namespace tasuki
