// ImageOperations: a backend's operations on images other than convolution, pooling and batch
// normalisation. The conventions of backend.hpp hold.
#pragma once

#include <cstdint>
#include <memory>

#include "tensor/backend.hpp"
#include "tensor/resize.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

// Normalisation of each element by those around it in other channels (Krizhevsky et al., "ImageNet
// classification with deep convolutional neural networks", section 3.3), as Chainer computes it:
//   y[c] = x[c] / s[c]^beta,   s[c] = k + alpha * (sum of x[j]^2, |j - c| <= window / 2).
// Channels beyond the first and last count as 0. PyTorch divides alpha by the window's size.
struct ResponseNormOptions {
  std::int64_t window = 5;  // channels; an even number counts as the next odd one
  float k = 2, alpha = 1e-4f, beta = 0.75f;
};

inline void check_response_norm(const Shape& x, const ResponseNormOptions& options) {
  TASUKI_CHECK(x.rank() == 4 && options.window > 0 && options.k > 0 && options.alpha >= 0,
               "local_response_norm of {} with a window of {}, k {} and alpha {}: expected N x C x "
               "H x W, and positive numbers",
               x.text(), options.window, options.k, options.alpha);
}

enum class Noise : std::uint8_t { normal, uniform };

class ImageOperations {
 public:
  virtual ~ImageOperations() = default;

  // x: N x C x H x W. `workspace` gets what the backward pass needs; null: there is none.
  virtual Tensor local_response_norm(const Tensor& x, const ResponseNormOptions& options,
                                     std::shared_ptr<Workspace>* workspace) = 0;
  // dx, of the same x, options and workspace.
  virtual Tensor local_response_norm_backward(const Tensor& x, const Tensor& dy,
                                              const ResponseNormOptions& options,
                                              const Workspace& workspace) = 0;

  // y[n, c, ...] += b[c], in place. y: N x C x H x W in any layout; b: C, float32 or of
  // y's type.
  virtual void add_bias(const Tensor& y, const Tensor& b) = 0;

  // x: N x C x H x W to N x C x height x width, both above 0.
  virtual Tensor resize(const Tensor& x, std::int64_t height, std::int64_t width,
                        const ResizeOptions& options) = 0;
  virtual Tensor resize_backward(const Tensor& dy, const Shape& x_shape,
                                 const ResizeOptions& options) = 0;

  // y = x + scale * noise. The noise of element j of example i is a function of (seed,
  // example_ids[i], j), as in Backend::dropout: uniform in [-1, 1), of word j % 4 of the Philox
  // block j / 4; normal, of words 0 and 1, or 2 and 3, by Box and Muller. Normal noise may differ
  // between devices by the rounding of their logarithms and cosines.
  virtual Tensor add_noise(const Tensor& x, Noise kind, float scale, const Tensor& seed,
                           const Tensor& example_ids) = 0;
};

}  // namespace tasuki
