// Batch normalisation of bfloat16 in blocks of 16 channels (nChw16c), optionally with ReLU: as
// oneDNN's, in half the time, because a pass over the images takes no longer than memory does.
// What ReLU lets through is computed again in the backward pass.
#pragma once

#include "tensor/tensor.hpp"

namespace tasuki {

// Four axes in that order, and a processor with has_bfloat16_products().
bool can_use_rounded_batch_norm(const Tensor& x);

struct RoundedNorm {
  Tensor gamma, beta;  // float32, of each channel
  float eps;
  bool relu;
};
// Writes the batch's mean and biased variance of each channel, float32. Sums are float32 of an
// image's pixels, relative to the first image's mean, and float64 of images in their order.
Tensor rounded_batch_norm(const Tensor& x, const RoundedNorm& norm, const Tensor& mean,
                          const Tensor& variance);
// dx + added, unless it is undefined; both gradients have any layout. Writes dgamma and dbeta.
// gamma and beta must be as in the forward pass.
Tensor rounded_batch_norm_backward(const Tensor& x, const Tensor& dy, const RoundedNorm& norm,
                                   const Tensor& mean, const Tensor& variance, const Tensor& dgamma,
                                   const Tensor& dbeta, const Tensor& added = {});

}  // namespace tasuki
