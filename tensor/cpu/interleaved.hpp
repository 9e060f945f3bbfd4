// Convolutions and average pooling over images side by side: blocks of 16 images, then channels,
// rows and columns, the same pixel of the 16 images innermost (oneDNN's Abcd16a). Vectors run over
// images, so that no number of channels, kernel or padding wastes a part of one, whereas oneDNN's
// blocks of 16 channels compute 32 x 64 for 20 x 50. Products are summed in order.
#pragma once

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/interleaved_kernels.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {

dnnl::memory::desc interleaved_desc(const Shape& shape);
bool is_interleaved(const Tensor& x);
// The same values in an order for which oneDNN has fast code: plain if they are interleaved.
Tensor dnnl_order(const Tensor& x);

// For N x C x H x W: blocks of images, the last one padded with zeros, and floats in a plane (one
// channel of a block).
inline std::int64_t blocks_of(const Shape& shape) {
  return (shape[0] + interleave - 1) / interleave;
}
inline std::int64_t plane_of(const Shape& shape) {
  return shape[2] * shape[3] * interleave;
}

// Whether the functions below can compute it: one group, at least one image.
bool can_interleave(const ConvolutionGeometry& geometry);
// Whether they may be faster: at least 16 images, and channels that leave a fifth or more of
// oneDNN's work to padding.
bool interleaving_may_pay(const ConvolutionGeometry& geometry);

// Inputs in any layout; y and dx are interleaved, the gradient of w is plain. `b` may be undefined.
Tensor interleaved_conv2d(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& w,
                          const Tensor& b);
Tensor interleaved_conv2d_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                        const Tensor& w);
Tensor interleaved_conv2d_backward_weights(const ConvolutionGeometry& geometry, const Tensor& x,
                                           const Tensor& dy);

// Means over windows, padding counted, of interleaved x or max(x, 0); results are interleaved.
Tensor interleaved_average(const PoolingGeometry& geometry, const Tensor& x, bool relu);
// `x`: what was clipped at 0, undefined if nothing was.
Tensor interleaved_average_backward(const PoolingGeometry& geometry, const Tensor& dy,
                                    const Tensor& x);

}  // namespace tasuki
