// Means of losses over what counts: sums of loss_blocks blocks, which one block joins.
#pragma once

#include <cstdint>

#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/loss_kernels.hpp"

namespace tasuki::kernels {

// Whether a target counts.
template <class Target>
__device__ bool counts(Target target, std::int64_t ignored_label) {
  if constexpr (std::is_same_v<Target, float>)
    return true;
  else
    return target != ignored_label;
}

// Of losses that are computed already.
struct GivenLoss {
  __device__ float loss(float x, float) const { return x; }
};

// Sums of loss_blocks blocks, then the numbers of elements that count.
template <class T, class Target, class Loss>
__global__ void loss_sums_kernel(const T* x, const Target* t, std::int64_t count,
                                 std::int64_t ignored_label, Loss f, double* sums) {
  double sum = 0, number = 0;
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    if (!counts(t[i], ignored_label)) continue;
    sum += static_cast<double>(f.loss(convert<float>(x[i]), static_cast<float>(t[i])));
    number += 1;
  }
  __shared__ double shared[32];
  sum = block_sum(sum, shared);
  number = block_sum(number, shared);
  if (threadIdx.x != 0) return;
  sums[blockIdx.x] = sum;
  sums[loss_blocks + blockIdx.x] = number;
}

static __global__ void mean_of_sums_kernel(const double* sums, float* loss, std::int64_t* counted) {
  __shared__ double shared[32];
  const double sum = block_sum(sums[threadIdx.x], shared);
  const double number = block_sum(sums[loss_blocks + threadIdx.x], shared);
  if (threadIdx.x != 0) return;
  *loss = number > 0 ? static_cast<float>(sum / number) : 0.0f;
  *counted = static_cast<std::int64_t>(number);
}

// `sums`: scratch memory of 2 * loss_blocks doubles.
template <class T, class Target, class Loss>
void mean_of_losses(const Launch& launch, const T* x, const Target* t, std::int64_t count,
                    std::int64_t ignored_label, Loss f, float* loss, std::int64_t* counted,
                    double* sums) {
  loss_sums_kernel<<<loss_blocks, block_threads, 0, launch.stream>>>(x, t, count, ignored_label, f,
                                                                     sums);
  mean_of_sums_kernel<<<1, loss_blocks, 0, launch.stream>>>(sums, loss, counted);
}

}  // namespace tasuki::kernels
