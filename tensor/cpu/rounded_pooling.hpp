// Average pooling of images of bfloat16 in blocks of 16 channels or with all channels of a pixel
// side by side, where it takes the time of its memory traffic. oneDNN's takes three times as long.
#pragma once

#include "tensor/geometry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// bfloat16 in one of these orders (rounded_blocks.hpp).
bool can_average_rounded(const Tensor& x);

// Means over windows, padding counted, of x or max(x, 0), summed in float32; y has x's order.
Tensor rounded_average(const PoolingGeometry& geometry, const Tensor& x, bool relu);
// `layout`: x's, which dx has; `x`: what was clipped at 0, undefined if nothing was.
Tensor rounded_average_backward(const PoolingGeometry& geometry, const Tensor& dy,
                                const std::shared_ptr<const Layout>& layout, const Tensor& x);

}  // namespace tasuki
