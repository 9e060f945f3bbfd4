// Normalisation by oneDNN.
#pragma once

#include <initializer_list>
#include <string>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/image_operations.hpp"

namespace tasuki {

// Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167), optionally with ReLU in the same pass.
// Tensors are in oneDNN's order (dnnl_order), by functions inside of with_dnnl().

// oneDNN's record of what ReLU let through, and of how many values a channel's statistics are.
struct BatchNormWorkspace final : Workspace {
  std::shared_ptr<Storage> passed;
  double values = 0;
};

enum class Statistics { of_batch, given };

// "batch normalisation of 2x3x4x5"
std::string text_of_norm(const Tensor& x);
void check_norm_shapes(const Tensor& x, std::initializer_list<const Tensor*> per_channel);
const BatchNormWorkspace& kept_of(const BatchNormResult& forward, const Tensor& x);

// The statistics are written to `result`, or read from it where they are given.
void normalise(const Tensor& x, const Tensor& gamma, const Tensor& beta, float eps, bool relu,
               Statistics statistics, BatchNormResult& result);
// By given statistics; keeps nothing for a backward pass.
Tensor normalised(const Tensor& x, const Tensor& gamma, const Tensor& beta, const Tensor& mean,
                  const Tensor& variance, float eps, bool relu);
// Returns dx, as if given statistics were constants.
Tensor differentiate(const Tensor& x, const BatchNormResult& forward, const Tensor& dy,
                     const Tensor& gamma, const Tensor& beta, float eps, bool relu,
                     Statistics statistics, const Tensor& dgamma, const Tensor& dbeta);

// Local response normalisation, which keeps blocked layouts (image_operations.hpp).
Tensor cpu_response_norm(const Tensor& x, const ResponseNormOptions& options,
                         std::shared_ptr<Workspace>* workspace);
Tensor cpu_response_norm_backward(const Tensor& x, const Tensor& dy,
                                  const ResponseNormOptions& options, const Workspace& workspace);

}  // namespace tasuki
