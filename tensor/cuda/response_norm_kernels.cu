#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/normalization_kernels.hpp"

namespace tasuki::kernels {
namespace {

// visitor(i of the neighbour) for the channels around element i. Neighbours are in the cache:
// another thread of the block, or of the one before, has read them.
template <class Index, class Visitor>
__device__ void for_neighbours(const ResponseNorm& norm, std::int64_t i, const Visitor& visitor) {
  const std::int64_t channel =
      static_cast<Index>(i) / static_cast<Index>(norm.step) % static_cast<Index>(norm.channels);
  const std::int64_t first = channel < norm.reach ? -channel : -norm.reach;
  const std::int64_t after = norm.channels - 1 - channel;
  const std::int64_t last = after < norm.reach ? after : norm.reach;
  for (std::int64_t offset = first; offset <= last; ++offset) visitor(i + offset * norm.step);
}

template <class Index, class T>
__global__ void response_norm_kernel(const T* x, T* y, float* sums, ResponseNorm norm) {
  for (std::int64_t i = thread_index(); i < norm.count; i += thread_count()) {
    float squares = 0;
    for_neighbours<Index>(norm, i, [&](std::int64_t j) {
      const float value = convert<float>(x[j]);
      squares += value * value;
    });
    const float sum = norm.k + norm.alpha * squares;
    if (sums != nullptr) sums[i] = sum;
    y[i] = convert<T>(convert<float>(x[i]) * powf(sum, -norm.beta));
  }
}

// dx[c] = dy[c] s[c]^-beta - 2 alpha beta x[c] * (sum of dy[j] x[j] s[j]^(-beta - 1)).
template <class Index, class T>
__global__ void response_norm_backward_kernel(const T* x, const T* dy, const float* sums, T* dx,
                                              ResponseNorm norm) {
  for (std::int64_t i = thread_index(); i < norm.count; i += thread_count()) {
    float through_sums = 0;
    for_neighbours<Index>(norm, i, [&](std::int64_t j) {
      through_sums += convert<float>(dy[j]) * convert<float>(x[j]) * powf(sums[j], -norm.beta - 1);
    });
    dx[i] = convert<T>(convert<float>(dy[i]) * powf(sums[i], -norm.beta) -
                       2 * norm.alpha * norm.beta * convert<float>(x[i]) * through_sums);
  }
}

}  // namespace

void response_norm(const Launch& launch, DType type, const void* x, void* y, float* sums,
                   const ResponseNorm& norm) {
  if (norm.count == 0) return;
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_index(norm.count, [&](auto index) {
      response_norm_kernel<decltype(index)>
          <<<grid_for(launch, norm.count), block_threads, 0, launch.stream>>>(
              static_cast<const T*>(x), static_cast<T*>(y), sums, norm);
    });
  });
}

void response_norm_backward(const Launch& launch, DType type, const void* x, const void* dy,
                            const float* sums, void* dx, const ResponseNorm& norm) {
  if (norm.count == 0) return;
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_index(norm.count, [&](auto index) {
      response_norm_backward_kernel<decltype(index)>
          <<<grid_for(launch, norm.count), block_threads, 0, launch.stream>>>(
              static_cast<const T*>(x), static_cast<const T*>(dy), sums, static_cast<T*>(dx), norm);
    });
  });
}

}  // namespace tasuki::kernels
