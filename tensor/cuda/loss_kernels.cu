#include <cmath>

#include "tensor/cuda/general_scores.cuh"
#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/loss_kernels.hpp"
#include "tensor/cuda/loss_means.cuh"

namespace tasuki::kernels {
namespace {

// --- softmax cross entropy ---

struct Positions {
  std::int64_t classes, inner, ignored_label;
  float smoothing;
  const float* weights;

  // Of the first class of a position; the next one is `inner` elements away.
  __device__ std::int64_t first(std::int64_t i) const {
    return i / inner * classes * inner + i % inner;
  }
  __device__ float weight(std::int64_t c) const { return weights == nullptr ? 1.0f : weights[c]; }
  __device__ float even(std::int64_t c) const {
    return smoothing / static_cast<float>(classes) * weight(c);
  }
  __device__ float peak(std::int64_t label) const { return (1 - smoothing) * weight(label); }
};

Positions positions_of(const GeneralScores& scores) {
  return {scores.classes, scores.inner, scores.ignored_label, scores.smoothing,
          scores.class_weights};
}

// What the threads that share a position combine: a warp, or one thread alone.
template <bool by_warp>
struct Team {
  static constexpr int threads = by_warp ? 32 : 1;
  __device__ static int lane() { return by_warp ? threadIdx.x % 32 : 0; }
  __device__ static float sum(float value) {
    if constexpr (by_warp) return warp_reduce(value, Plus());
    return value;
  }
  __device__ static float largest(float value) {
    if constexpr (by_warp) return warp_reduce(value, [](float a, float b) { return fmaxf(a, b); });
    return value;
  }
};

template <bool by_warp, class T, class Label>
__global__ void cross_entropy_kernel(const T* x, const Label* labels, std::int64_t count,
                                     Positions positions, float* tops, float* sums, float* losses) {
  using Sharing = Team<by_warp>;
  const std::int64_t step = positions.inner;
  for (std::int64_t i = thread_index() / Sharing::threads; i < count;
       i += thread_count() / Sharing::threads) {
    const T* const row = x + positions.first(i);
    float top = -INFINITY;
    for (std::int64_t c = Sharing::lane(); c < positions.classes; c += Sharing::threads)
      top = fmaxf(top, convert<float>(row[c * step]));
    top = Sharing::largest(top);
    float sum = 0, even = 0, even_sum = 0;
    for (std::int64_t c = Sharing::lane(); c < positions.classes; c += Sharing::threads) {
      const float score = convert<float>(row[c * step]) - top;
      sum += expf(score);
      if (positions.smoothing == 0) continue;
      even += positions.even(c) * score;
      even_sum += positions.even(c);
    }
    sum = Sharing::sum(sum);
    even = Sharing::sum(even);
    even_sum = Sharing::sum(even_sum);
    if (Sharing::lane() != 0) continue;
    tops[i] = top;
    sums[i] = sum;
    const std::int64_t label = labels[i];
    if (label == positions.ignored_label)
      losses[i] = 0;
    else if (label < 0 || label >= positions.classes)
      losses[i] = NAN;
    else
      losses[i] = (positions.peak(label) + even_sum) * logf(sum) -
                  positions.peak(label) * (convert<float>(row[label * step]) - top) - even;
  }
}

__device__ inline float mean_factor(const float* dy, const std::int64_t* counted) {
  return *dy / static_cast<float>(*counted > 0 ? *counted : 1);
}

// The sum of even(c) does not depend on the position: each block computes it once.
template <class Index, class T, class Label>
__global__ void cross_entropy_backward_kernel(const T* x, const Label* labels, const float* tops,
                                              const float* sums, std::int64_t elements,
                                              Positions positions, const std::int64_t* counted,
                                              const float* dy, T* dx) {
  __shared__ float shared[32];
  __shared__ float even_sum;
  float own = 0;
  if (positions.smoothing != 0)
    for (std::int64_t c = threadIdx.x; c < positions.classes; c += blockDim.x)
      own += positions.even(c);
  own = block_sum(own, shared);
  if (threadIdx.x == 0) even_sum = own;
  __syncthreads();
  const float factor = mean_factor(dy, counted);
  for (std::int64_t at = thread_index(); at < elements; at += thread_count()) {
    const auto [row, inner] = divide(static_cast<Index>(at), static_cast<Index>(positions.inner));
    const auto [outer, c] = divide(row, static_cast<Index>(positions.classes));
    const std::int64_t i = outer * positions.inner + inner;
    const std::int64_t label = labels[i];
    if (label == positions.ignored_label || label < 0 || label >= positions.classes) {
      dx[at] = convert<T>(0.0f);
      continue;
    }
    const float peak = positions.peak(label);
    float value = (peak + even_sum) * expf(convert<float>(x[at]) - tops[i]) / sums[i];
    if (positions.smoothing != 0) value -= positions.even(c);
    if (c == label) value -= peak;
    dx[at] = convert<T>(value * factor);
  }
}

// --- losses of each element ---

struct SigmoidLoss {
  bool has_labels;  // else targets are probabilities
  __device__ float probability(float t) const { return has_labels && t != 0 && t != 1 ? NAN : t; }
  __device__ float loss(float x, float t) const {
    // max(x, 0) - p x, which cancels out, as a product.
    const float p = probability(t);
    return (x > 0 ? 1 - p : -p) * x + log1pf(expf(-fabsf(x)));
  }
  __device__ float slope(float x, float t) const { return sigmoid(x) - probability(t); }
};

struct HuberLoss {
  float delta;
  __device__ float loss(float x, float t) const {
    const float d = x - t, size = fabsf(d);
    return size <= delta ? 0.5f * d * d : delta * (size - 0.5f * delta);
  }
  __device__ float slope(float x, float t) const {
    const float d = x - t;
    return d < -delta ? -delta : d > delta ? delta : d;  // a NaN stays one
  }
};

// `counted`: null if all elements count.
template <class T, class Target, class Loss>
__global__ void loss_backward_kernel(const T* x, const Target* t, std::int64_t count,
                                     std::int64_t ignored_label, Loss f,
                                     const std::int64_t* counted, const float* dy, T* dx) {
  const float factor =
      counted != nullptr ? mean_factor(dy, counted) : *dy / static_cast<float>(count);
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const bool is_counted = counts(t[i], ignored_label);
    const float slope = f.slope(convert<float>(x[i]), static_cast<float>(t[i]));
    dx[i] = convert<T>(is_counted ? slope * factor : 0.0f);
  }
}

template <class Visitor>
void with_targets(const TargetedScores& scores, Visitor&& visitor) {
  with_float_type(scores.type, [&](auto type) {
    if (scores.target_type == DType::int64)
      visitor(type, static_cast<const std::int64_t*>(scores.targets));
    else if (scores.target_type == DType::int32)
      visitor(type, static_cast<const std::int32_t*>(scores.targets));
    else
      visitor(type, static_cast<const float*>(scores.targets));
  });
}

template <class Loss>
void mean_loss(const Launch& launch, const TargetedScores& scores, Loss f, float* loss,
               std::int64_t* counted, double* sums) {
  with_targets(scores, [&](auto type, const auto* targets) {
    using T = typename decltype(type)::type;
    mean_of_losses(launch, static_cast<const T*>(scores.values), targets, scores.count,
                   scores.ignored_label, f, loss, counted, sums);
  });
}

template <class Loss>
void mean_loss_backward(const Launch& launch, const TargetedScores& scores, Loss f,
                        const std::int64_t* counted, const float* dy, void* dx) {
  if (scores.count == 0) return;
  with_targets(scores, [&](auto type, const auto* targets) {
    using T = typename decltype(type)::type;
    loss_backward_kernel<<<grid_for(launch, scores.count), block_threads, 0, launch.stream>>>(
        static_cast<const T*>(scores.values), targets, scores.count, scores.ignored_label, f,
        counted, dy, static_cast<T*>(dx));
  });
}

}  // namespace

void general_cross_entropy(const Launch& launch, const GeneralScores& scores, float* loss,
                           std::int64_t* counted, float* saved, float* losses, double* sums) {
  const std::int64_t count = scores.outer * scores.inner;
  with_scores(scores, [&](auto type, const auto* labels) {
    using T = typename decltype(type)::type;
    const auto* const x = static_cast<const T*>(scores.values);
    // Neighbouring threads read neighbouring elements: those of a row, or of positions.
    if (are_long_rows(scores, nullptr))
      long_rows_cross_entropy(launch, scores, saved, saved + count, losses);
    else if (count > 0 && scores.inner == 1)
      cross_entropy_kernel<true><<<grid_for(launch, count * 32), block_threads, 0, launch.stream>>>(
          x, labels, count, positions_of(scores), saved, saved + count, losses);
    else if (count > 0)
      cross_entropy_kernel<false><<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          x, labels, count, positions_of(scores), saved, saved + count, losses);
    mean_of_losses(launch, losses, labels, count, scores.ignored_label, GivenLoss(), loss, counted,
                   sums);
  });
}

void general_cross_entropy_backward(const Launch& launch, const GeneralScores& scores,
                                    const float* saved, const std::int64_t* counted,
                                    const float* dy, void* dx) {
  const std::int64_t positions = scores.outer * scores.inner, elements = positions * scores.classes;
  if (elements == 0) return;
  if (are_long_rows(scores, dx))
    return long_rows_cross_entropy_gradient(launch, scores, saved, saved + positions, counted, dy,
                                            dx);
  with_scores(scores, [&](auto type, const auto* labels) {
    with_index(elements, [&](auto index) {
      using T = typename decltype(type)::type;
      cross_entropy_backward_kernel<decltype(index)>
          <<<grid_for(launch, elements), block_threads, 0, launch.stream>>>(
              static_cast<const T*>(scores.values), labels, saved, saved + positions, elements,
              positions_of(scores), counted, dy, static_cast<T*>(dx));
    });
  });
}

void sigmoid_cross_entropy(const Launch& launch, const TargetedScores& scores, float* loss,
                           std::int64_t* counted, double* sums) {
  mean_loss(launch, scores, SigmoidLoss{scores.target_type != DType::float32}, loss, counted, sums);
}

void sigmoid_cross_entropy_backward(const Launch& launch, const TargetedScores& scores,
                                    const std::int64_t* counted, const float* dy, void* dx) {
  mean_loss_backward(launch, scores, SigmoidLoss{scores.target_type != DType::float32}, counted, dy,
                     dx);
}

void huber(const Launch& launch, const TargetedScores& scores, float delta, float* loss,
           std::int64_t* counted, double* sums) {
  mean_loss(launch, scores, HuberLoss{delta}, loss, counted, sums);
}

void huber_backward(const Launch& launch, const TargetedScores& scores, float delta,
                    const float* dy, void* dx) {
  mean_loss_backward(launch, scores, HuberLoss{delta}, nullptr, dy, dx);
}

}  // namespace tasuki::kernels
