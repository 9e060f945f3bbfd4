#include "optimizer/loss_scaler.hpp"

#include "core/error.hpp"

namespace tasuki {

LossScaler::LossScaler(Device device, const Settings& settings)
    : state_(Tensor::zeros({3}, DType::float32, device)), rule_(settings.rule) {
  TASUKI_CHECK(settings.initial > 0 && rule_.growth >= 1 && 0 < rule_.backoff &&
                   rule_.backoff < 1 && rule_.interval >= 1,
               "a loss scale from {}, growing by {} after {} steps and backing off by {}",
               settings.initial, rule_.growth, rule_.interval, rule_.backoff);
  restore(settings.initial, 0);
}

Tensor LossScaler::seed(double examples) const {
  Tensor seed = state_.slice(0, 1).reshape({}).clone();
  backend(seed.device()).scale(seed, static_cast<float>(examples));
  return seed;
}

void LossScaler::unscale(const Tensor& gradients) const {
  backend(gradients.device()).unscale(gradients, state_);
}

void LossScaler::adjust() const {
  backend(state_.device()).adjust_loss_scale(state_, rule_);
}

void LossScaler::restore(double scale, std::int64_t good_steps) const {
  const float numbers[] = {static_cast<float>(scale), static_cast<float>(good_steps), 0};
  state_.copy_from(Tensor::from(std::span<const float>(numbers), {3}));
}

}  // namespace tasuki
