// Operations for steps without waiting for the device, and loss scaling. On a CPU everything is
// done at once.
#include <chrono>
#include <cmath>

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {

void CpuBackend::post(const Tensor& table, const Tensor& row, std::span<const Tensor> scalars) {
  const std::int64_t number = *row.data<std::int64_t>();
  const std::int64_t rows = table.shape()[0], columns = table.shape()[1];
  TASUKI_CHECK(std::ssize(scalars) < columns, "{} scalars for a table of {}", scalars.size(),
               table.shape().text());
  double* const to = table.data<double>() + number % rows * columns;
  for (std::size_t i = 0; i < scalars.size(); ++i) to[i + 1] = scalars[i].item();
  to[0] = static_cast<double>(number + 1);
}

void CpuBackend::stamp(const Tensor& clock, StepMoment moment) {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  TASUKI_CHECK(clock.count() == step_clock_values, "a clock of {}", clock.shape().text());
  reinterpret_cast<StepClock*>(clock.data<double>())
      ->advance(moment, std::chrono::duration<double>(now).count());
}

namespace {

double now(const LateScale& scale) {
  return scale.on_device != nullptr ? *scale.on_device : scale.value;
}

}  // namespace

void CpuBackend::clip(const Tensor& x, const LateScale& scale, double threshold) {
  const double length = std::sqrt(squared_norm(x)) * now(scale);
  if (length > threshold) this->scale(x, static_cast<float>(threshold / length));
}

void CpuBackend::lars(const Tensor& g, const Tensor& w, const LarsRule& rule) {
  const double of_gradient = now(rule.gradient_scale);
  const double rate =
      rule.rate(std::sqrt(squared_norm(w)), std::sqrt(squared_norm(g)) * of_gradient);
  const double scale = of_gradient * rate, decay = rule.decay * rate;
  if (scale != 1) this->scale(g, static_cast<float>(scale));
  if (decay != 0) accumulate(g, w, static_cast<float>(decay));
}

void CpuBackend::unscale(const Tensor& x, const Tensor& state) {
  float* const numbers = state.data<float>();
  const float factor = 1 / numbers[0];
  bool is_finite = true;
  for (float& value : x.span<float>()) {
    value *= factor;
    is_finite = is_finite && std::isfinite(value);
  }
  if (!is_finite) numbers[2] = 1;
}

void CpuBackend::adjust_loss_scale(const Tensor& state, const LossScaleRule& rule) {
  float& scale = state.data<float>()[0];
  float& good_steps = state.data<float>()[1];
  float& found = state.data<float>()[2];
  if (found != 0) {
    scale *= rule.backoff;
    good_steps = 0;
  } else if (++good_steps >= static_cast<float>(rule.interval)) {
    scale *= rule.growth;
    good_steps = 0;
  }
  found = 0;
}

}  // namespace tasuki
