// Convolutions of bfloat16 as products of matrices: the pixels that a result depends on, each with
// its channels side by side, become a row of a matrix (im2col). All weights of a filter together
// are padded to what instructions multiply at once, and not the channels of each weight: oneDNN's
// blocks of 16 channels compute 32 x 64 for 20 x 50.
#pragma once

#include "tensor/geometry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// One group, more than four input channels (rows of a few elements cost more than their products),
// at least one image, and a processor with products of bfloat16.
bool can_use_columns(const ConvolutionGeometry& geometry);
// Whether the shapes speak for columns: numbers of channels that leave a fifth or more of oneDNN's
// blocks of 16 to padding.
bool columns_may_pay(const ConvolutionGeometry& geometry);

// Images in any layout of bfloat16; results have blocks of 16 channels (nChw16c) where these are
// full, else channels side by side. w has float32 or bfloat16; b is float32 or undefined. A result
// is one product's sum; a weight's gradient the sum over up to 16 groups of images, in their order.
// No bit depends on the number of threads. Padding is multiplied, too, so an infinite weight makes
// results at the borders NaN, and an infinite slope there the gradients of weights that meet
// padding.
Tensor column_conv2d(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& w,
                     const Tensor& b);
Tensor column_conv2d_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                   const Tensor& w);
// The gradient of w: float32, the inputs of each weight side by side (ohwi).
Tensor column_conv2d_backward_weights(const ConvolutionGeometry& geometry, const Tensor& x,
                                      const Tensor& dy);

}  // namespace tasuki
