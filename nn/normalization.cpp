#include "nn/normalization.hpp"

#include <array>

#include "nn/functions/normalization.hpp"
#include "nn/recompute.hpp"
#include "tensor/backend.hpp"

namespace tasuki {
namespace {

void set_sizes(Parameter& gamma, Parameter& beta, std::int64_t size) {
  for (Parameter* const each : {&gamma, &beta})
    if (!each->has_shape()) each->set_shape({size});
}

}  // namespace

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
  if (!is_training)
    return functions::fixed_batch_norm(x, scale, beta_, {mean_, variance_}, eps, relu);
  functions::BatchStatistics batch;
  Variable y = functions::batch_norm(x, scale, beta_, eps, relu, &batch);
  if (is_recomputing()) return y;
  const std::int64_t values_per_channel = x.value().count() / x.shape()[1];
  const auto m = static_cast<float>(values_per_channel);
  const float unbiased = m / std::max(m - 1, 1.0f);
  const std::array<MovingAverage, 2> averages = {
      {{mean_, batch.mean, decay, 1 - decay},
       {variance_, batch.variance, decay, (1 - decay) * unbiased}}};
  backend(x.value().device()).move_averages(averages);
  return y;
}

LayerNorm::LayerNorm(std::optional<std::int64_t> size, float eps)
    : eps_(eps),
      gamma_(size ? add_parameter("gamma", {*size}, initializers::one())
                  : add_unshaped_parameter("gamma", {0}, initializers::one())),
      beta_(size ? add_parameter("beta", {*size}, initializers::zero())
                 : add_unshaped_parameter("beta", {0}, initializers::zero())) {}

Variable LayerNorm::forward(const Variable& x) {
  set_sizes(gamma_, beta_, x.shape().count_per_item());
  return functions::layer_norm(x, gamma_, beta_, eps_);
}

GroupNorm::GroupNorm(std::int64_t groups, std::optional<std::int64_t> channels, float eps)
    : groups_(groups),
      eps_(eps),
      gamma_(channels ? add_parameter("gamma", {*channels}, initializers::one())
                      : add_unshaped_parameter("gamma", {0}, initializers::one())),
      beta_(channels ? add_parameter("beta", {*channels}, initializers::zero())
                     : add_unshaped_parameter("beta", {0}, initializers::zero())) {}

Variable GroupNorm::forward(const Variable& x) {
  TASUKI_CHECK(x.shape().rank() >= 2, "GroupNorm: expected N x C x ..., found {}",
               x.shape().text());
  set_sizes(gamma_, beta_, x.shape()[1]);
  return functions::group_norm(x, groups_, gamma_, beta_, eps_);
}

}  // namespace tasuki
