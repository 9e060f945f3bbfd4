// Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167), optionally with ReLU in the same pass,
// by our own kernels: cuDNN fuses ReLU only for float16 in channels last, and returns the
// deviation's inverse in place of the variance.
#include <limits>

#include "core/error.hpp"
#include "tensor/cuda/batch_norm_kernels.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {
namespace {

struct BatchNormWorkspace final : Workspace {
  Tensor inverse_deviation;
  Tensor sums;  // that the statistics were found from
};

std::string text_of(const Tensor& x) {
  return fmt::format("batch normalisation of {}", x.shape().text());
}

void check_shapes(const Tensor& x, std::initializer_list<const Tensor*> per_channel) {
  const Shape& shape = x.shape();
  check_activation(x, "batch normalisation");
  TASUKI_CHECK(shape.rank() == 2 || shape.rank() == 4, "{}: N x C or N x C x H x W is needed",
               text_of(x));
  for (const Tensor* values : per_channel) {
    TASUKI_CHECK(values->shape() == Shape{shape[1]}, "{}: a parameter of {}", text_of(x),
                 values->shape().text());
    check_parameter(*values, x.device(), "batch normalisation");
  }
}

kernels::BatchNormSize size_of_norm(const Tensor& x) {
  const Shape& shape = x.shape();
  const std::int64_t pixels = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  TASUKI_CHECK(shape[0] * pixels <= std::numeric_limits<std::int32_t>::max(),
               "{}: more than 2^31 values of a channel", text_of(x));
  // Single pixels have the same order in both layouts.
  return {shape[0], shape[1], pixels, is_channels_last(x) || pixels == 1};
}

// Float32 values on the device of x.
Tensor floats(const Tensor& x, std::size_t count) {
  return cuda_empty({static_cast<std::int64_t>(count)}, DType::float32, x.device());
}

Tensor scratch_for(const CudaContext& context, const Tensor& x,
                   const kernels::BatchNormSize& size) {
  return floats(x, kernels::batch_norm_scratch(context.launch(), x.dtype(), size));
}

kernels::BatchNormChannels channels_of(const Tensor& mean, const Tensor& inverse_deviation,
                                       const Tensor& gamma, const Tensor& beta) {
  return {mean.data<float>(), inverse_deviation.data<float>(), gamma.data<float>(),
          beta.data<float>()};
}

const BatchNormWorkspace& kept_of(const BatchNormResult& forward, const Tensor& x) {
  const auto* const kept = dynamic_cast<const BatchNormWorkspace*>(forward.workspace.get());
  TASUKI_CHECK(kept != nullptr, "{}: the forward pass kept nothing for the backward pass",
               text_of(x));
  return *kept;
}

// dx + added. `dy` is in the layout of x; `means` are those of batch_norm_gradient_sums.
Tensor gradient_of(const Tensor& x, const Tensor& dy, const kernels::BatchNormChannels& channels,
                   bool relu, const Tensor& means, const Tensor& added) {
  if (added) check_alike(x, added, "batch normalisation's gradient");
  const Tensor sum = added ? cuda_in_layout(added, x.layout()) : added;
  Tensor dx = cuda_empty_like(x);
  kernels::batch_norm_gradient(CudaContext::of(x.device()).launch(), x.dtype(), dx.raw(), x.raw(),
                               dy.raw(), size_of_norm(x), channels, relu, means.data<float>(),
                               sum ? sum.raw() : nullptr);
  check_launch("batch_norm_gradient");
  return dx;
}

}  // namespace

BatchNormResult CudaBackend::batch_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                        float eps, bool relu) {
  check_shapes(x, {&gamma, &beta});
  TASUKI_CHECK(x.count() > 0, "{}: an empty batch has no mean", text_of(x));
  const CudaContext& context = CudaContext::of(x.device());
  const kernels::BatchNormSize size = size_of_norm(x);
  auto kept = std::make_shared<BatchNormWorkspace>();
  kept->inverse_deviation = cuda_empty_like(gamma);
  BatchNormResult result{cuda_empty_like(x), cuda_empty_like(gamma), cuda_empty_like(gamma), kept};
  const Tensor scratch = scratch_for(context, x, size);
  kernels::batch_norm_statistics(context.launch(), x.dtype(), x.raw(), size, eps,
                                 result.mean.data<float>(), result.variance.data<float>(),
                                 kept->inverse_deviation.data<float>(), scratch.data<float>());
  check_launch("batch_norm_statistics");
  kernels::batch_norm_apply(context.launch(), x.dtype(), result.y.raw(), x.raw(), size,
                            channels_of(result.mean, kept->inverse_deviation, gamma, beta), relu);
  check_launch("batch_norm_apply");
  return result;
}

Tensor CudaBackend::batch_norm_inference(const Tensor& x, const Tensor& gamma, const Tensor& beta,
                                         const Tensor& mean, const Tensor& variance, float eps,
                                         bool relu) {
  check_shapes(x, {&gamma, &beta, &mean, &variance});
  Tensor y = cuda_empty_like(x);
  if (x.count() == 0) return y;
  const CudaContext& context = CudaContext::of(x.device());
  const Tensor inverse_deviation = cuda_empty_like(variance);
  kernels::batch_norm_inverse_deviation(context.launch(), inverse_deviation.data<float>(),
                                        variance.data<float>(), eps, variance.count());
  check_launch("batch_norm_inverse_deviation");
  kernels::batch_norm_apply(context.launch(), x.dtype(), y.raw(), x.raw(), size_of_norm(x),
                            channels_of(mean, inverse_deviation, gamma, beta), relu);
  check_launch("batch_norm_apply");
  return y;
}

Tensor CudaBackend::batch_norm_backward(const Tensor& x, const BatchNormResult& forward,
                                        const Tensor& dy, const Tensor& gamma, const Tensor& beta,
                                        float /*eps*/, bool relu, const Tensor& dgamma,
                                        const Tensor& dbeta, bool accumulate, const Tensor& added) {
  check_shapes(x, {&gamma, &beta, &dgamma, &dbeta});
  check_alike(x, dy, "batch normalisation's gradient");
  const CudaContext& context = CudaContext::of(x.device());
  const kernels::BatchNormSize size = size_of_norm(x);
  const kernels::BatchNormChannels channels =
      channels_of(forward.mean, kept_of(forward, x).inverse_deviation, gamma, beta);
  const Tensor upstream = cuda_in_layout(dy, x.layout());
  const Tensor scratch = scratch_for(context, x, size);
  const Tensor means = floats(x, 2 * static_cast<std::size_t>(size.channels));
  kernels::batch_norm_gradient_sums(context.launch(), x.dtype(), x.raw(), upstream.raw(), size,
                                    channels, relu, dgamma.data<float>(), dbeta.data<float>(),
                                    accumulate, means.data<float>(), scratch.data<float>());
  check_launch("batch_norm_gradient_sums");
  return gradient_of(x, upstream, channels, relu, means, added);
}

// --- in parts ---

Tensor CudaBackend::batch_norm_sums(const Tensor& x) {
  check_shapes(x, {});
  Tensor sums = cuda_empty({2 * x.shape()[1] + 1}, DType::float64, x.device());
  if (x.count() == 0) {
    sums.fill(0);
    return sums;
  }
  const CudaContext& context = CudaContext::of(x.device());
  const kernels::BatchNormSize size = size_of_norm(x);
  const Tensor scratch = scratch_for(context, x, size);
  kernels::batch_norm_sums(context.launch(), x.dtype(), x.raw(), size, sums.data<double>(),
                           scratch.data<float>());
  check_launch("batch_norm_sums");
  return sums;
}

BatchNormResult CudaBackend::batch_norm_by_sums(const Tensor& x, const Tensor& gamma,
                                                const Tensor& beta, const Tensor& sums, float eps,
                                                bool relu, const BatchNormAverages& averages) {
  check_shapes(x, {&gamma, &beta, &averages.mean, &averages.variance});
  const CudaContext& context = CudaContext::of(x.device());
  auto kept = std::make_shared<BatchNormWorkspace>();
  kept->inverse_deviation = cuda_empty_like(gamma);
  kept->sums = sums;
  BatchNormResult result{cuda_empty_like(x), cuda_empty_like(gamma), cuda_empty_like(gamma), kept};
  kernels::batch_norm_from_sums(context.launch(), sums.data<double>(), gamma.count(), eps,
                                averages.decay,
                                {result.mean.data<float>(), result.variance.data<float>(),
                                 kept->inverse_deviation.data<float>(), averages.mean.data<float>(),
                                 averages.variance.data<float>()});
  check_launch("batch_norm_from_sums");
  if (x.count() == 0) return result;
  kernels::batch_norm_apply(context.launch(), x.dtype(), result.y.raw(), x.raw(), size_of_norm(x),
                            channels_of(result.mean, kept->inverse_deviation, gamma, beta), relu);
  check_launch("batch_norm_apply");
  return result;
}

BatchNormGradientSums CudaBackend::batch_norm_gradient_sums(const Tensor& x,
                                                            const BatchNormResult& forward,
                                                            const Tensor& dy, const Tensor& gamma,
                                                            const Tensor& beta, float /*eps*/,
                                                            bool relu) {
  check_shapes(x, {&gamma, &beta});
  check_alike(x, dy, "batch normalisation's gradient");
  const auto channels = static_cast<std::size_t>(gamma.count());
  BatchNormGradientSums found{floats(x, 2 * channels), {}};
  if (x.count() == 0) {
    found.sums.fill(0);
    return found;
  }
  const CudaContext& context = CudaContext::of(x.device());
  const kernels::BatchNormSize size = size_of_norm(x);
  const Tensor upstream = cuda_in_layout(dy, x.layout());
  const Tensor scratch = scratch_for(context, x, size), unused = floats(x, 2 * channels);
  float* const sums = found.sums.data<float>();
  kernels::batch_norm_gradient_sums(
      context.launch(), x.dtype(), x.raw(), upstream.raw(), size,
      channels_of(forward.mean, kept_of(forward, x).inverse_deviation, gamma, beta), relu,
      sums + channels, sums, false, unused.data<float>(), scratch.data<float>());
  check_launch("batch_norm_gradient_sums");
  found.rest = upstream;
  return found;
}

Tensor CudaBackend::batch_norm_gradient(const Tensor& x, const BatchNormResult& forward,
                                        const Tensor& /*dy*/, const Tensor& gamma,
                                        const Tensor& beta, float /*eps*/, bool relu,
                                        const BatchNormGradientSums& own, const Tensor& all,
                                        const Tensor& added) {
  if (x.count() == 0) return cuda_empty_like(x);
  const BatchNormWorkspace& kept = kept_of(forward, x);
  const CudaContext& context = CudaContext::of(x.device());
  const Tensor means = floats(x, static_cast<std::size_t>(all.count()));
  kernels::batch_norm_gradient_means(context.launch(), kept.sums.data<double>(), all.data<float>(),
                                     gamma.count(), means.data<float>());
  check_launch("batch_norm_gradient_means");
  return gradient_of(x, own.rest, channels_of(forward.mean, kept.inverse_deviation, gamma, beta),
                     relu, means, added);
}

}  // namespace tasuki
