// Convolutions of bfloat16 with filters of 3 x 3 and stride 1 by Winograd's F(2 x 4, 3 x 3)
// (winograd_kernels.hpp): a tile of 2 x 4 results takes 24 products for each pair of channels,
// and not 72. oneDNN has none for bfloat16, and its F(4 x 4, 3 x 3) for float32 would multiply the
// roundings of bfloat16 by up to 100. This one multiplies them by about 4: the transformed images
// and filters are rounded once more, and all sums are float32.
//
// It pays where products of matrices take most of the time (AVX512_BF16), and not where they are
// faster than memory (AMX).
#pragma once

#include "tensor/geometry.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// One group, numbers of channels that are multiples of 16, and a processor with products of
// bfloat16.
bool can_use_rounded_winograd(const ConvolutionGeometry& geometry);

// Images in any layout of bfloat16; results have blocks of 16 channels (nChw16c). w has float32 or
// bfloat16; b is float32 or undefined. No bit depends on the number of threads.
Tensor rounded_winograd_conv2d(const ConvolutionGeometry& geometry, const Tensor& x,
                               const Tensor& w, const Tensor& b);
Tensor rounded_winograd_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                      const Tensor& w);
// The gradient of w: float32, plain.
Tensor rounded_winograd_backward_weights(const ConvolutionGeometry& geometry, const Tensor& x,
                                         const Tensor& dy);

}  // namespace tasuki
