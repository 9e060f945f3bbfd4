// Converts filters between plain order and the order of oneDNN's convolutions on AVX-512.
#pragma once

#include "tensor/tensor.hpp"

namespace tasuki {

// Moves (or adds) float32 filters O x I x KH x KW between plain order and blocks of 16 x 16
// channels (oneDNN's OIhw16i16o: O/16 x I/16 x KH x KW x 16 I x 16 O), in either direction, as fast
// as memory is copied; oneDNN's own reorder takes up to twice as long. Returns false, having done
// nothing, if the two tensors are in other orders.
bool rearrange_filters(const Tensor& destination, const Tensor& source, bool accumulate);

}  // namespace tasuki
