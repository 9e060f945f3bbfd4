// Batch normalisation (Ioffe and Szegedy, arXiv 1502.03167), whole and in parts.
#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/cpu/channel_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_normalization.hpp"
#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/interleaved.hpp"
#include "tensor/cpu/rounded_batch_norm.hpp"
#include "tensor/cpu/rounded_product.hpp"

namespace tasuki {
namespace {

// The values in oneDNN's order where channel_kernels.hpp knows it.
Tensor in_channel_order(const Tensor& x) {
  const Tensor ordered = dnnl_order(x);
  return ChannelOrder::of(ordered) ? ordered : ordered.plain();
}

// The activations as oneDNN normalises them here.
Tensor supported(const Tensor& x) {
  return is_native(x.dtype()) ? x : in_float32(x);
}

void check_gradient(const Tensor& x, const Tensor& dy) {
  TASUKI_CHECK(dy.shape() == x.shape(), "{}: a gradient of {}", text_of_norm(x), dy.shape().text());
}

}  // namespace

BatchNormResult CpuBackend::batch_norm(const Tensor& input, const Tensor& gamma, const Tensor& beta,
                                       float eps, bool relu) {
  check_norm_shapes(input, {&gamma, &beta});
  TASUKI_CHECK(input.count() > 0, "{}: an empty batch has no mean", text_of_norm(input));
  const auto what = [&] { return text_of_norm(input); };
  return with_dnnl(what, [&] {
    BatchNormResult result{{}, Tensor::empty(gamma.shape()), Tensor::empty(gamma.shape()), {}};
    if (can_use_rounded_batch_norm(input)) {
      result.y = rounded_batch_norm(input, {gamma, beta, eps, relu}, result.mean, result.variance);
      return result;
    }
    normalise(dnnl_order(supported(input)), gamma, beta, eps, relu, Statistics::of_batch, result);
    result.y = in_type(result.y, input.dtype());
    return result;
  });
}

Tensor CpuBackend::batch_norm_inference(const Tensor& input, const Tensor& gamma,
                                        const Tensor& beta, const Tensor& mean,
                                        const Tensor& variance, float eps, bool relu) {
  check_norm_shapes(input, {&gamma, &beta});
  if (input.count() == 0) return Tensor::empty(input.shape(), input.dtype());
  const auto what = [&] { return text_of_norm(input); };
  return with_dnnl(what, [&] {
    const Tensor x = dnnl_order(supported(input));
    return in_type(normalised(x, gamma, beta, mean, variance, eps, relu), input.dtype());
  });
}

Tensor CpuBackend::batch_norm_backward(const Tensor& input, const BatchNormResult& forward,
                                       const Tensor& dy, const Tensor& gamma, const Tensor& beta,
                                       float eps, bool relu, const Tensor& dgamma,
                                       const Tensor& dbeta, bool accumulate, const Tensor& added) {
  check_norm_shapes(input, {&gamma, &beta, &dgamma, &dbeta});
  check_gradient(input, dy);
  if (added) check_gradient(input, added);
  const auto what = [&] { return fmt::format("the gradient of {}", text_of_norm(input)); };
  return with_dnnl(what, [&] {
    const Tensor scale_gradient = accumulate ? Tensor::empty(gamma.shape()) : dgamma;
    const Tensor shift_gradient = accumulate ? Tensor::empty(beta.shape()) : dbeta;
    const auto by_dnnl = [&] {
      Tensor dx = differentiate(dnnl_order(supported(input)), forward, supported(dy), gamma, beta,
                                eps, relu, Statistics::of_batch, scale_gradient, shift_gradient);
      if (added) this->accumulate(dx, supported(added), 1);
      return dx;
    };
    const Tensor dx =
        can_use_rounded_batch_norm(input)
            ? rounded_batch_norm_backward(input, dy, {gamma, beta, eps, relu}, forward.mean,
                                          forward.variance, scale_gradient, shift_gradient, added)
            : by_dnnl();
    if (accumulate) {
      this->accumulate(dgamma, scale_gradient, 1);
      this->accumulate(dbeta, shift_gradient, 1);
    }
    return in_type(dx, input.dtype());
  });
}

// --- in parts, which have no loops for 16 bits ---

Tensor CpuBackend::batch_norm_sums(const Tensor& input) {
  check_norm_shapes(input, {});
  const std::int64_t channels = input.shape()[1];
  Tensor sums = Tensor::zeros({2 * channels + 1}, DType::float64);
  if (input.count() == 0) return sums;
  const Tensor x = in_channel_order(in_float32(input));
  const ChannelSums found =
      channel_sums(static_cast<const float*>(x.raw()), ChannelOrder::of(x).value());
  double* const sum = sums.data<double>();
  std::copy_n(found.values.begin(), channels, sum);
  std::copy_n(found.squares.begin(), channels, sum + channels);
  const std::int64_t of_channel = input.count() / channels;
  sum[2 * channels] = static_cast<double>(of_channel);
  return sums;
}

BatchNormResult CpuBackend::batch_norm_by_sums(const Tensor& input, const Tensor& gamma,
                                               const Tensor& beta, const Tensor& sums, float eps,
                                               bool relu, const BatchNormAverages& averages) {
  check_norm_shapes(input, {&gamma, &beta, &averages.mean, &averages.variance});
  const std::int64_t channels = gamma.count();
  const double* const sum = sums.data<double>();
  const double values = sum[2 * channels];
  BatchNormResult result{Tensor::empty(input.shape(), input.dtype()),
                         Tensor::zeros({channels}),
                         Tensor::zeros({channels}),
                         {}};
  if (values == 0) return result;
  const float decay = averages.decay;
  const auto unbiased = static_cast<float>(values / std::max(values - 1, 1.0));
  for (std::int64_t c = 0; c < channels; ++c) {
    const double mean = sum[c] / values;
    const double spread = sum[channels + c] / values - mean * mean;
    const double variance = spread < 0 ? 0 : spread;  // a NaN stays one
    float& found_mean = result.mean.data<float>()[c];
    float& found_variance = result.variance.data<float>()[c];
    found_mean = static_cast<float>(mean);
    found_variance = static_cast<float>(variance);
    float& average = averages.mean.data<float>()[c];
    average = decay * average + (1 - decay) * found_mean;
    float& average_variance = averages.variance.data<float>()[c];
    average_variance = decay * average_variance + (1 - decay) * unbiased * found_variance;
  }
  if (input.count() == 0) return result;
  const auto what = [&] { return text_of_norm(input); };
  return with_dnnl(what, [&] {
    normalise(dnnl_order(in_float32(input)), gamma, beta, eps, relu, Statistics::given, result);
    result.y = in_type(result.y, input.dtype());
    static_cast<BatchNormWorkspace&>(*result.workspace).values = values;
    return result;
  });
}

// `rest` is dx with the statistics as constants.
BatchNormGradientSums CpuBackend::batch_norm_gradient_sums(const Tensor& input,
                                                           const BatchNormResult& forward,
                                                           const Tensor& dy, const Tensor& gamma,
                                                           const Tensor& beta, float eps,
                                                           bool relu) {
  check_norm_shapes(input, {&gamma, &beta});
  check_gradient(input, dy);
  const std::int64_t channels = gamma.count();
  BatchNormGradientSums found{Tensor::zeros({2 * channels}), Tensor::empty(input.shape())};
  if (input.count() == 0) return found;
  const auto what = [&] { return fmt::format("the gradient of {}", text_of_norm(input)); };
  return with_dnnl(what, [&] {
    found.rest = differentiate(
        dnnl_order(in_float32(input)), forward, in_float32(dy), gamma, beta, eps, relu,
        Statistics::given, found.sums.slice(channels, 2 * channels), found.sums.slice(0, channels));
    return found;
  });
}

// With x' = (x - mean) / deviation and m values: dx = gamma / deviation * (dy - sum(dy) / m - x' *
// sum(dy x') / m). The first term is there already; the others are linear in x.
Tensor CpuBackend::batch_norm_gradient(const Tensor& input, const BatchNormResult& forward,
                                       const Tensor& /*dy*/, const Tensor& gamma,
                                       const Tensor& /*beta*/, float eps, bool /*relu*/,
                                       const BatchNormGradientSums& own, const Tensor& all,
                                       const Tensor& added) {
  if (input.count() == 0) return in_type(own.rest, input.dtype());
  const double values = kept_of(forward, input).values;
  const Tensor x = in_channel_order(in_float32(input));
  const Tensor dx = own.rest.layout() == x.layout() ? own.rest : reordered(own.rest, desc_of(x));
  const ChannelOrder order = ChannelOrder::of(x).value();
  const auto padded = static_cast<std::size_t>(order.channels());
  std::vector<float> factors(padded, 0), means(padded, 0), shifts(padded, 0);
  const std::int64_t channels = gamma.count();
  for (std::int64_t c = 0; c < channels; ++c) {
    const auto at = static_cast<std::size_t>(c);
    const double deviation = std::sqrt(forward.variance.data<float>()[c] + double{eps});
    const double scale = -gamma.data<float>()[c] / deviation / values;
    const double factor = scale * all.data<float>()[channels + c] / deviation;
    factors[at] = static_cast<float>(factor);
    means[at] = forward.mean.data<float>()[c];
    shifts[at] = static_cast<float>(scale * all.data<float>()[c]);
  }
  add_scaled_channels(static_cast<float*>(dx.raw()), static_cast<const float*>(x.raw()), order,
                      {factors.data(), means.data(), shifts.data()});
  if (added) accumulate(dx, in_float32(added), 1);
  return in_type(dx, input.dtype());
}

}  // namespace tasuki
