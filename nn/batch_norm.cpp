#include "nn/batch_norm.hpp"

#include <array>

#include "nn/functions/batch_norm.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

BatchNorm::BatchNorm(std::int64_t channels) : BatchNorm(channels, Settings()) {}

BatchNorm::BatchNorm(std::int64_t channels, const Settings& settings)
    : settings_(settings),
      gamma_(settings.use_gamma ? &add_parameter("gamma", {channels}, initializers::one())
                                : nullptr),
      beta_(add_parameter("beta", {channels}, initializers::zero())),
      mean_(add_buffer("avg_mean", Tensor::zeros({channels}))),
      variance_(add_buffer("avg_var", Tensor::full({channels}, 1))) {
  // Counts the batches of Chainer's fine-tuning mode, which is not used here; saved for Chainer.
  add_buffer("N", Tensor::zeros({}, DType::int64));
}

const Variable& BatchNorm::gamma(Device device) {
  if (gamma_ != nullptr) return *gamma_;
  if (!ones_.defined() || ones_.value().device() != device)
    ones_ = Variable(Tensor::full(beta_.shape(), 1, DType::float32, device));
  return ones_;
}

Variable BatchNorm::forward(const Variable& x) {
  const auto [decay, eps, relu, unused] = settings_;
  const Variable& scale = gamma(x.value().device());
  const bool is_training = TrainingMode::is_training();
  if (is_training && method_)
    return method_->normalise(x, scale, beta_, eps, relu, {mean_, variance_, decay});
  if (x.value().count() == 0) return x;
  if (!is_training) return fixed_batch_norm(x, scale, beta_, {mean_, variance_}, eps, relu);
  BatchStatistics batch;
  Variable y = batch_norm(x, scale, beta_, eps, relu, &batch);
  const std::int64_t values_per_channel = x.value().count() / x.shape()[1];
  const auto m = static_cast<float>(values_per_channel);
  const float unbiased = m / std::max(m - 1, 1.0f);
  const std::array<MovingAverage, 2> averages = {
      {{mean_, batch.mean, decay, 1 - decay},
       {variance_, batch.variance, decay, (1 - decay) * unbiased}}};
  backend(x.value().device()).move_averages(averages);
  return y;
}

}  // namespace tasuki
