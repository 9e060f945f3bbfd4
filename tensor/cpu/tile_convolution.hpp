// Convolutions of bfloat16 with stride 1 on AMX, without copies of what filters cover.
//
// Images of a group lie one after the other in rows with zeros between them, so a filter's weight
// meets all pixels at one distance: 16 neighbouring pixels of 32 channels are a tile as they lie
// in memory. A result is the sum over weights and channels in their order, whatever the group and
// the number of threads; a weight's gradient the sum over images in theirs. Padding is multiplied,
// too, so infinite pixels and slopes make gradients of all weights of their channels NaN, and
// infinite weights the results at the borders.
#pragma once

#include "tensor/geometry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Numbers of channels must be multiples of it.
inline constexpr std::int64_t tile_channels = 32;

// has_tiles(), one group, stride and dilation 1, padding smaller than the filter, and numbers of
// channels that are multiples of tile_channels.
bool can_use_tile_convolution(const ConvolutionGeometry& geometry);

// Images in any layout of bfloat16; results have blocks of 16 channels. w has float32 or
// bfloat16; b is float32 or undefined.
Tensor tile_conv2d(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& w,
                   const Tensor& b);
Tensor tile_conv2d_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                 const Tensor& w);
// The gradient of w: float32, plain.
Tensor tile_conv2d_backward_weights(const ConvolutionGeometry& geometry, const Tensor& x,
                                    const Tensor& dy);

}  // namespace tasuki
