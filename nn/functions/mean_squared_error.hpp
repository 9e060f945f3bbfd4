// The loss of regression.
#pragma once

#include "nn/variable.hpp"

namespace tasuki {

// Mean of (y - t)^2 over all elements, a float32 scalar: the mean over the examples of a batch, as
// a loss function returns it; 0 without elements. t: targets of y's shape, without gradient.
Variable mean_squared_error(const Variable& y, const Tensor& t);

}  // namespace tasuki
