#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/update_kernels.hpp"

namespace tasuki::kernels {
namespace {

__device__ double now(const LateScale& scale) {
  return scale.on_device != nullptr ? *scale.on_device : scale.value;
}

__global__ void clip_kernel(float* x, std::int64_t count, const double* squared_norm,
                            LateScale scale, double threshold) {
  const double length = sqrt(*squared_norm) * now(scale);
  if (!(length > threshold)) return;
  const auto factor = static_cast<float>(threshold / length);
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) x[i] *= factor;
}

__global__ void lars_kernel(float* g, const float* w, std::int64_t count,
                            const double* squared_norms, LarsNumbers k) {
  const double of_gradient = now(k.gradient_scale);
  const double w_norm = sqrt(squared_norms[0]), g_norm = sqrt(squared_norms[1]) * of_gradient;
  const double rate = w_norm > k.threshold ? w_norm / (k.eps + g_norm + k.decay * w_norm) : 1;
  const auto scale = static_cast<float>(of_gradient * rate);
  const auto decay = static_cast<float>(k.decay * rate);
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    g[i] = g[i] * scale + w[i] * decay;
}

// All threads that find such a number write the same value.
__global__ void unscale_kernel(float* x, std::int64_t count, float* state) {
  const float factor = 1 / state[0];
  bool is_finite = true;
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const float value = x[i] * factor;
    x[i] = value;
    is_finite = is_finite && isfinite(value);
  }
  if (!is_finite) state[2] = 1;
}

__global__ void find_non_finite_kernel(const float* x, std::int64_t count, float* found) {
  bool is_finite = true;
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    is_finite = is_finite && isfinite(x[i]);
  if (!is_finite) *found = 1;
}

__global__ void adjust_kernel(float* state, float growth, float backoff, float interval) {
  if (state[2] != 0) {
    state[0] *= backoff;
    state[1] = 0;
  } else if (++state[1] >= interval) {
    state[0] *= growth;
    state[1] = 0;
  }
  state[2] = 0;
}

}  // namespace

void clip(const Launch& launch, float* x, std::int64_t count, const double* squared_norm,
          const LateScale& scale, double threshold) {
  if (count == 0) return;
  clip_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(x, count, squared_norm,
                                                                            scale, threshold);
}

void lars(const Launch& launch, float* g, const float* w, std::int64_t count,
          const double* squared_norms, const LarsNumbers& numbers) {
  if (count == 0) return;
  lars_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(g, w, count,
                                                                            squared_norms, numbers);
}

void unscale(const Launch& launch, float* x, std::int64_t count, float* state) {
  if (count == 0) return;
  unscale_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(x, count, state);
}

void find_non_finite(const Launch& launch, const float* x, std::int64_t count, float* found) {
  if (count == 0) return;
  find_non_finite_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(x, count,
                                                                                       found);
}

void adjust_loss_scale(const Launch& launch, float* state, float growth, float backoff,
                       float interval) {
  adjust_kernel<<<1, 1, 0, launch.stream>>>(state, growth, backoff, interval);
}

}  // namespace tasuki::kernels
