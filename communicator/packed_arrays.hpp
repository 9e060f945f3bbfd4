// Several arrays as a single one, so that one message takes them all.
#pragma once

#include <span>

#include "tensor/tensor.hpp"

namespace tasuki {

// A new array with the elements of all arrays, one after the other, of the type and on the device
// of the first; at least one array, all of one type.
Tensor pack(std::span<const Tensor> arrays);

// Copies what pack(arrays) would read there back into them.
void unpack(const Tensor& packed, std::span<const Tensor> arrays);

}  // namespace tasuki
