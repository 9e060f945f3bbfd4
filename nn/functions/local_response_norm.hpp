// Local response normalisation, Chainer's local_response_normalization.
#pragma once

#include "nn/variable.hpp"
#include "tensor/image_operations.hpp"

namespace tasuki {

// N x C x H x W: each element divided by a function of those around it in other channels
// (ResponseNormOptions, with Chainer's defaults). Unlike PyTorch's, alpha is not divided by the
// window's size.
Variable local_response_norm(const Variable& x, const ResponseNormOptions& options = {});

}  // namespace tasuki
