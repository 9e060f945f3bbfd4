// Optimizers' updates, one fused pass over the arena, and the norm of an array.
#include <algorithm>
#include <vector>

#include "tasuki/core/error.hpp"
#include "tasuki/tensor/cpu/cpu_backend.hpp"
#include "tasuki/tensor/cpu/parallel.hpp"
#include "tasuki/tensor/cpu/vectorize.hpp"
#include "tasuki/tensor/half.hpp"

namespace tasuki {
namespace {

// Threads and partial sums take whole blocks.
constexpr std::int64_t block = 4096;

// The arrays of a step never overlap, which lets the compiler keep values in registers.
struct Arrays {
  float* __restrict p;
  const float* __restrict gradient;
  float* __restrict s;  // first state
  float* __restrict r;  // second state
  explicit Arrays(const UpdateStep& step)
      : p(step.parameter), gradient(step.gradient), s(step.state[0]), r(step.state[1]) {}
};

TASUKI_VECTORIZE void sgd(const UpdateStep& step, std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, s, r] = Arrays(step);
  const float scale = step.gradient_scale, decay = step.weight_decay, rate = step.rate;
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    p[i] -= rate * g;
  }
}

TASUKI_VECTORIZE void momentum_sgd(const UpdateStep& step, std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, v, unused] = Arrays(step);
  const float scale = step.gradient_scale, decay = step.weight_decay, rate = step.rate;
  const float momentum = step.constant[0];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    v[i] = momentum * v[i] - rate * g;
    p[i] += v[i];
  }
}

TASUKI_VECTORIZE void nesterov(const UpdateStep& step, std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, v, unused] = Arrays(step);
  const float scale = step.gradient_scale, decay = step.weight_decay, rate = step.rate;
  const float momentum = step.constant[0];
  const float of_velocity = momentum * momentum, of_gradient = (1 + momentum) * rate;
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    v[i] = momentum * v[i] - rate * g;
    p[i] += of_velocity * v[i] - of_gradient * g;
  }
}

TASUKI_VECTORIZE void adam(const UpdateStep& step, std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, m, v] = Arrays(step);
  const float scale = step.gradient_scale, decay = step.weight_decay, rate = step.rate;
  const float new_m = step.constant[0], new_v = step.constant[1], eps = step.constant[2];
  const float decoupled_decay = step.constant[3];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    m[i] += new_m * (g - m[i]);
    v[i] += new_v * (g * g - v[i]);
    p[i] -= rate * (m[i] / (__builtin_sqrtf(v[i]) + eps)) + decoupled_decay * p[i];
  }
}

TASUKI_VECTORIZE void rmsprop(const UpdateStep& step, std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, ms, unused] = Arrays(step);
  const float scale = step.gradient_scale, decay = step.weight_decay, rate = step.rate;
  const float new_ms = step.constant[0], eps = step.constant[1];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    ms[i] += new_ms * (g * g - ms[i]);
    p[i] -= rate * (g / (__builtin_sqrtf(ms[i]) + eps));
  }
}

TASUKI_VECTORIZE void adagrad(const UpdateStep& step, std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, h, unused] = Arrays(step);
  const float scale = step.gradient_scale, decay = step.weight_decay, rate = step.rate;
  const float eps = step.constant[0];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    h[i] += g * g;
    p[i] -= rate * (g / (__builtin_sqrtf(h[i]) + eps));
  }
}

TASUKI_VECTORIZE void adadelta(const UpdateStep& step, std::int64_t begin, std::int64_t end) {
  const auto [p, gradient, msg, msdx] = Arrays(step);
  const float scale = step.gradient_scale, decay = step.weight_decay;
  const float fresh = step.constant[0], eps = step.constant[1];
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = scale * gradient[i] + decay * p[i];
    msg[i] += fresh * (g * g - msg[i]);
    const float dx = __builtin_sqrtf((msdx[i] + eps) / (msg[i] + eps)) * g;
    msdx[i] += fresh * (dx * dx - msdx[i]);
    p[i] -= dx;
  }
}

// A float's square is exact in double and the order of additions is written down, so the sum is the
// same on every processor.
TASUKI_VECTORIZE double block_squared_norm(const float* values, std::int64_t count) {
  constexpr int lanes = 16;
  double sums[lanes] = {};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (int lane = 0; lane < lanes; ++lane) {
      const double value = values[i + lane];
      sums[lane] += value * value;
    }
  }
  for (int lane = 0; i < count; ++i, ++lane) sums[lane] += double{values[i]} * double{values[i]};
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

auto kernel_of(UpdateRule rule) -> void (*)(const UpdateStep&, std::int64_t, std::int64_t) {
  switch (rule) {
    case UpdateRule::sgd:
      return sgd;
    case UpdateRule::momentum_sgd:
      return momentum_sgd;
    case UpdateRule::nesterov:
      return nesterov;
    case UpdateRule::adam:
    case UpdateRule::adamw:
      return adam;
    case UpdateRule::rmsprop:
      return rmsprop;
    case UpdateRule::adagrad:
      return adagrad;
    case UpdateRule::adadelta:
      return adadelta;
  }
  fail(ErrorKind::internal, "update rule {} does not exist", static_cast<int>(rule));
}

std::int64_t blocks_of(std::int64_t count) {
  return (count + block - 1) / block;
}

}  // namespace

void CpuBackend::update(const UpdateStep& step) {
  if (step.skip != nullptr && *step.skip != 0) return;
  UpdateStep now = step;
  if (step.device_factors != nullptr) {
    now.rate = step.device_factors[0];
    std::copy_n(step.device_factors + 1, 4, now.constant);
  }
  const auto kernel = kernel_of(now.rule);
  parallel_for(blocks_of(now.count), eltwise_grain / block,
               [&](std::int64_t begin, std::int64_t end) {
                 kernel(now, begin * block, std::min(end * block, now.count));
               });
  if (step.rounded == nullptr) return;
  auto* const rounded = static_cast<std::uint16_t*>(step.rounded);
  std::transform(step.parameter, step.parameter + step.count, rounded,
                 step.rounded_type == DType::float16 ? half_from_float : bfloat16_from_float);
}

double CpuBackend::squared_norm(const Tensor& x) {
  const Tensor plain = x.plain();
  const float* const values = plain.data<float>();
  const std::int64_t count = plain.count();
  // One sum a block, added in order: the result does not depend on the number of threads.
  std::vector<double> sums(static_cast<std::size_t>(blocks_of(count)));
  parallel_for(blocks_of(count), eltwise_grain / block, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b)
      sums[static_cast<std::size_t>(b)] =
          block_squared_norm(values + b * block, std::min(block, count - b * block));
  });
  double sum = 0;
  for (const double part : sums) sum += part;
  return sum;
}

}  // namespace tasuki
