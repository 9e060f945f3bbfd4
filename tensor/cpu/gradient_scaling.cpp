// What looks at gradients before an update or changes them: clipping, LARS, loss scaling. The
// factor 1 / examples is not among it: the update multiplies by it (update.cpp).
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

double now(const LateScale& scale) {
  return scale.on_device != nullptr ? *scale.on_device : scale.value;
}

// By the exponents, in integers: all loads, no branch.
TASUKI_VECTORIZE bool has_non_finite(const float* values, std::int64_t count) {
  constexpr std::uint32_t exponent = 0x7f800000;
  std::uint32_t found = 0;
  for (std::int64_t i = 0; i < count; ++i)
    found |= (std::bit_cast<std::uint32_t>(values[i]) & exponent) == exponent ? 1U : 0U;
  return found != 0;
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

void CpuBackend::find_non_finite(const Tensor& x, const Tensor& found) {
  const float* const values = x.data<float>();
  std::atomic<bool> is_found = false;
  parallel_for(x.count(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    if (has_non_finite(values + begin, end - begin)) is_found = true;
  });
  if (is_found) *found.data<float>() = 1;
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
