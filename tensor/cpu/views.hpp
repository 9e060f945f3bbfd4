// Copies between plain arrays and views of them, for elements of any type.
#pragma once

#include "tensor/array_operations.hpp"

namespace tasuki {

void copy_from_view(const View& view, const Tensor& source, const Tensor& to);
void copy_to_view(const View& view, const Tensor& destination, const Tensor& from);

}  // namespace tasuki
