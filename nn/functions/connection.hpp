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

// Convolution of images (a cross-correlation, as in all frameworks). x: N x I x H x W, w: O x
// I/groups x KH x KW, b: O or undefined; y: N x O x H' x W' with H' = (H + 2 pad - dilation (KH -
// 1) - 1) / stride + 1, rounded down.
Variable conv2d(const Variable& x, const Variable& w, const Variable& b = {},
                const Conv2dOptions& options = {});

// Transposed convolution (Chainer's deconvolution_2d), the gradient of conv2d with respect to its
// input: each pixel of x adds w, times the pixel's value, to y at `stride` times the pixel's
// place. x: N x I x H x W, w: I x O/groups x KH x KW, b: O or undefined; y: N x O x H' x W'
// with H' = stride (H - 1) + dilation (KH - 1) + 1 - 2 pad. `size`: H' and W', which a stride above
// 1 leaves open; conv2d with these options must turn them into H x W.
Variable deconv2d(const Variable& x, const Variable& w, const Variable& b = {},
                  const Conv2dOptions& options = {},
                  std::optional<std::pair<std::int64_t, std::int64_t>> size = {});

// Rows of w (n x d): maps ids (int32 or int64) of any shape with up to 5 axes to the same shape x
// d. Rows of `ignore_label` are zeros and have no gradient. Any other id outside of 0 .. n - 1 is
// an error of kind data on CPUs and gives a row of NaN on GPUs. The result has w's type, or the
// type of its rounded copy if an optimizer keeps one (Optimizer::compute_in).
Variable embed_id(const Tensor& ids, const Variable& w,
                  std::optional<std::int64_t> ignore_label = std::nullopt);

}  // namespace tasuki::functions
