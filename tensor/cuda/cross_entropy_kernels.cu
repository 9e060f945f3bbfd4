#include <climits>
#include <cmath>

#include "tensor/cuda/cross_entropy_kernels.hpp"
#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/loss_means.cuh"

namespace tasuki::kernels {
namespace {

// A warp per row. Batches of up to this many rows are done by one block, which also adds up the
// losses and the right answers and so saves launches.
constexpr int warps_of_one_block = 32;
constexpr std::int64_t most_rows_of_one_block = 256;
constexpr std::int64_t most_classes_of_one_block = 64;

bool fit_one_block(const Scores& scores) {
  return scores.items <= most_rows_of_one_block && scores.classes <= most_classes_of_one_block;
}

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct Smaller {
  __device__ int operator()(int a, int b) const { return a < b ? a : b; }
};

struct RowLoss {
  float loss, top;  // the largest score that is a number
};

// Writes a row's softmax. The result is in all lanes.
template <class T>
__device__ RowLoss softmax_row(const T* row, float* out, std::int64_t classes, std::int64_t label) {
  const int lane = threadIdx.x % 32;
  float top = -INFINITY;
  for (std::int64_t j = lane; j < classes; j += 32) top = fmaxf(top, convert<float>(row[j]));
  top = warp_reduce(top, Larger());
  float sum = 0;
  for (std::int64_t j = lane; j < classes; j += 32) {
    const float e = expf(convert<float>(row[j]) - top);
    out[j] = e;
    sum += e;
  }
  sum = warp_reduce(sum, Plus());
  const float factor = 1 / sum;
  for (std::int64_t j = lane; j < classes; j += 32) out[j] *= factor;
  if (label == -1) return {0, top};
  if (label < 0 || label >= classes) return {NAN, top};
  return {logf(sum) - (convert<float>(row[label]) - top), top};
}

// The first class of a short row that has this score, in all lanes.
template <class T>
__device__ int first_with(const T* row, int classes, float score) {
  int first = INT_MAX;
  for (int j = threadIdx.x % 32; j < classes && first == INT_MAX; j += 32)
    if (convert<float>(row[j]) == score) first = j;
  return warp_reduce(first, Smaller());
}

template <class T, class Label>
__global__ void softmax_rows_kernel(const T* x, const Label* labels, std::int64_t items,
                                    std::int64_t classes, float* probabilities, float* row_losses) {
  const std::int64_t warps = thread_count() / 32;
  for (std::int64_t i = thread_index() / 32; i < items; i += warps) {
    const RowLoss row =
        softmax_row(x + i * classes, probabilities + i * classes, classes, labels[i]);
    if (threadIdx.x % 32 == 0) row_losses[i] = row.loss;
  }
}

// Adds up what the threads have counted. With several blocks `counts` begin with zeros.
__device__ void put_counts(long long correct, long long labelled, unsigned long long* counts) {
  __shared__ long long shared[32];
  correct = block_sum(correct, shared);
  labelled = block_sum(labelled, shared);
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    counts[0] = static_cast<unsigned long long>(correct);
    counts[1] = static_cast<unsigned long long>(labelled);
  } else {
    atomicAdd(counts, static_cast<unsigned long long>(correct));
    atomicAdd(counts + 1, static_cast<unsigned long long>(labelled));
  }
}

// The mean over the rows that count, by one block.
template <class Label>
__device__ void mean_of_rows(const float* row_losses, const Label* labels, std::int64_t items,
                             float* loss, std::int64_t* counted) {
  double sum = 0;
  long long count = 0;
  for (std::int64_t i = threadIdx.x; i < items; i += blockDim.x) {
    if (labels[i] == -1) continue;
    sum += static_cast<double>(row_losses[i]);
    ++count;
  }
  __shared__ double shared_sums[32];
  __shared__ long long shared_counts[32];
  sum = block_sum(sum, shared_sums);
  count = block_sum(count, shared_counts);
  if (threadIdx.x != 0) return;
  *loss = count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0.0f;
  *counted = count;
}

template <class T, class Label>
__global__ void __launch_bounds__(32 * warps_of_one_block)
    softmax_one_block_kernel(const T* x, const Label* labels, std::int64_t items,
                             std::int64_t classes, float* probabilities, float* loss,
                             std::int64_t* counted, unsigned long long* counts) {
  __shared__ float row_losses[most_rows_of_one_block];
  long long correct = 0, labelled = 0;
  for (std::int64_t i = threadIdx.x / 32; i < items; i += warps_of_one_block) {
    const T* const scores = x + i * classes;
    const RowLoss row = softmax_row(scores, probabilities + i * classes, classes, labels[i]);
    const int answer = first_with(scores, static_cast<int>(classes), row.top);
    if (threadIdx.x % 32 != 0) continue;
    row_losses[i] = row.loss;
    labelled += labels[i] >= 0 ? 1 : 0;
    correct += labels[i] == answer ? 1 : 0;
  }
  __syncthreads();
  mean_of_rows(row_losses, labels, items, loss, counted);
  if (counts != nullptr) put_counts(correct, labelled, counts);
}

template <class Index, class T, class Label, class Upstream>
__global__ void softmax_backward_kernel(const float* probabilities, const Label* labels,
                                        std::int64_t items, std::int64_t classes, T* dx,
                                        const std::int64_t* counted, const Upstream* dy) {
  const std::int64_t n = *counted;
  const float factor = convert<float>(*dy) / static_cast<float>(n > 0 ? n : 1);
  for (std::int64_t i = thread_index(); i < items * classes; i += thread_count()) {
    const auto [row, column] = divide(static_cast<Index>(i), static_cast<Index>(classes));
    const std::int64_t label = labels[row];
    const float target = label == std::int64_t{column} ? 1.0f : 0.0f;
    dx[i] = convert<T>(label == -1 ? 0.0f : (probabilities[i] - target) * factor);
  }
}

template <class T, class Label>
__global__ void count_correct_kernel(const T* x, const Label* labels, std::int64_t items,
                                     std::int64_t classes, unsigned long long* counts) {
  const int lane = threadIdx.x % 32;
  const std::int64_t warps = thread_count() / 32;
  long long correct = 0, counted = 0;
  for (std::int64_t i = thread_index() / 32; i < items; i += warps) {
    const T* const row = x + i * classes;
    float top = -INFINITY;
    std::int64_t at = LLONG_MAX;
    for (std::int64_t j = lane; j < classes; j += 32) {
      const float value = convert<float>(row[j]);
      if (value > top || (value == top && j < at)) {
        top = value;
        at = j;
      }
    }
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(~0u, top, step);
      const std::int64_t other_at = __shfl_xor_sync(~0u, at, step);
      if (other > top || (other == top && other_at < at)) {
        top = other;
        at = other_at;
      }
    }
    if (lane != 0 || labels[i] < 0) continue;
    ++counted;
    if (at == labels[i]) ++correct;
  }
  put_counts(correct, counted, counts);
}

template <class Visitor>
void with_scores(const Scores& scores, Visitor&& visitor) {
  with_float_type(scores.type, [&](auto type) {
    if (scores.label_type == DType::int64)
      visitor(type, static_cast<const std::int64_t*>(scores.labels));
    else
      visitor(type, static_cast<const std::int32_t*>(scores.labels));
  });
}

// Blocks of `block_threads` threads, a warp per row.
unsigned grid_for_rows(const Launch& launch, std::int64_t rows) {
  return grid_for(launch, rows * 32);
}

}  // namespace

void softmax_cross_entropy(const Launch& launch, const Scores& scores, float* probabilities,
                           float* loss, std::int64_t* counted, std::int64_t* counts,
                           float* row_losses, double* sums) {
  with_scores(scores, [&](auto type, const auto* labels) {
    using T = typename decltype(type)::type;
    const auto* const x = static_cast<const T*>(scores.values);
    if (fit_one_block(scores)) {
      softmax_one_block_kernel<<<1, 32 * warps_of_one_block, 0, launch.stream>>>(
          x, labels, scores.items, scores.classes, probabilities, loss, counted,
          reinterpret_cast<unsigned long long*>(counts));
      return;
    }
    softmax_rows_kernel<<<grid_for_rows(launch, scores.items), block_threads, 0, launch.stream>>>(
        x, labels, scores.items, scores.classes, probabilities, row_losses);
    mean_of_losses(launch, row_losses, labels, scores.items, -1, GivenLoss(), loss, counted, sums);
    if (counts != nullptr) count_correct(launch, scores, counts);
  });
}

void softmax_cross_entropy_backward(const Launch& launch, const Scores& dx, void* dx_values,
                                    const float* probabilities, const std::int64_t* counted,
                                    DType dy_type, const void* dy) {
  const std::int64_t count = dx.items * dx.classes;
  if (count == 0) return;
  with_scores(dx, [&](auto type, const auto* labels) {
    using T = typename decltype(type)::type;
    with_float_type(dy_type, [&](auto upstream) {
      using Upstream = typename decltype(upstream)::type;
      with_index(count, [&](auto index) {
        softmax_backward_kernel<decltype(index)>
            <<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
                probabilities, labels, dx.items, dx.classes, static_cast<T*>(dx_values), counted,
                static_cast<const Upstream*>(dy));
      });
    });
  });
}

void count_correct(const Launch& launch, const Scores& scores, std::int64_t* counts) {
  auto* const result = reinterpret_cast<unsigned long long*>(counts);
  const bool one_block = fit_one_block(scores);
  if (!one_block) cudaMemsetAsync(result, 0, 2 * sizeof(*result), launch.stream);
  const unsigned grid = one_block ? 1 : grid_for_rows(launch, scores.items);
  const int threads = one_block ? 32 * warps_of_one_block : block_threads;
  with_scores(scores, [&](auto type, const auto* labels) {
    using T = typename decltype(type)::type;
    count_correct_kernel<<<grid, threads, 0, launch.stream>>>(
        static_cast<const T*>(scores.values), labels, scores.items, scores.classes, result);
  });
}

}  // namespace tasuki::kernels
