// Functions with weights, which layers use (nn/connection.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "nn/variable.hpp"
#include "tensor/backend.hpp"

namespace tasuki::functions {

// Fully connected: y = x w^T + b, with `relu` max(y, 0) in the same pass. x: N x I (more axes are
// flattened), w: O x I, b: O or undefined; y: N x O.
Variable linear(const Variable& x, const Variable& w, const Variable& b = {}, bool relu = false);

// added + linear(x, w, b), without a separate pass on CPUs; `added`: N x O.
Variable add_linear(const Variable& added, const Variable& x, const Variable& w,
                    const Variable& b = {});

// gelu(linear(x, w, b), approximate), on GPUs in one pass where cuBLASLt computes that. Of
// -infinity it is 0 or, in such a pass, may be NaN.
Variable linear_gelu(const Variable& x, const Variable& w, const Variable& b = {},
                     bool approximate = false);

// Convolution of images (a cross-correlation, as in all frameworks). x: N x I x H x W, w: O x
// I/groups x KH x KW, b: O or undefined; y: N x O x H' x W' with H' = (H + 2 pad - dilation (KH -
// 1) - 1) / stride + 1, rounded down. With `relu` max(y, 0), on GPUs in one pass with the bias.
Variable conv2d(const Variable& x, const Variable& w, const Variable& b = {},
                const Conv2dOptions& options = {}, bool relu = false);

// Transposed convolution (Chainer's deconvolution_2d), the gradient of conv2d with respect to its
// input: each pixel of x adds its value times w to y, at the pixel's place times `stride`. x: N x I
// x H x W, w: I x O/groups x KH x KW, b: O or undefined; y: N x O x H' x W' with H' = stride (H -
// 1) + dilation (KH - 1) + 1 - 2 pad. `size`: H' and W', where a stride above 1 allows several
// sizes; conv2d with these options must turn H' x W' into H x W.
Variable deconv2d(const Variable& x, const Variable& w, const Variable& b = {},
                  const Conv2dOptions& options = {},
                  std::optional<std::pair<std::int64_t, std::int64_t>> size = {});

// Looks up rows of w (n x d). `ids` (int32 or int64) have any shape of up to 5 axes; the result has
// that shape and a last axis of d. The id `ignore_label` gives zeros, without a gradient. Any other
// id outside of 0 .. n - 1 is an error of kind data on CPUs and gives a row of NaN on GPUs. The
// result has w's type, or the type of its rounded copy if an optimizer keeps one
// (Optimizer::compute_in).
Variable embed_id(const Tensor& ids, const Variable& w,
                  std::optional<std::int64_t> ignore_label = std::nullopt);

}  // namespace tasuki::functions
