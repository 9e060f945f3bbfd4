// Average pooling of images of bfloat16 in blocks of 16 channels, or with all channels of a pixel
// side by side. Rows of pixels are summed in float32 where they lie.
#pragma once

#include <memory>

#include "tensor/geometry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Images of bfloat16 in one of these orders (rounded_blocks.hpp), on a processor with products of
// bfloat16, where such orders arise.
bool can_average_rounded(const Tensor& x);

// Means over windows, padding counted, of x or max(x, 0), summed in float32; y has x's order.
Tensor rounded_average(const PoolingGeometry& geometry, const Tensor& x, bool relu);
// `layout`: x's, which dx has; `x`: what was clipped at 0, undefined if nothing was.
Tensor rounded_average_backward(const PoolingGeometry& geometry, const Tensor& dy,
                                const std::shared_ptr<const Layout>& layout, const Tensor& x);

}  // namespace tasuki
