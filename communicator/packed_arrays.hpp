// Several arrays as a single one, so that one message takes them all.
#pragma once

#include <functional>
#include <span>

#include "tensor/tensor.hpp"

namespace tasuki {

// Calls combine() with the elements of all arrays of a type and a device, one after the other in an
// array of their own, and copies what it leaves there back. Once for each type and device, in the
// order in which they come first. The arrays are plain.
void combine_packed(std::span<const Tensor> arrays,
                    const std::function<void(const Tensor& packed)>& combine);

}  // namespace tasuki
