// Softmax cross entropy of rows of many classes, as language models have them: a block for each row
// reads its scores once per pass, 16 bytes at a time, and no array of probabilities is kept. (Rows
// of another number of classes than a multiple of 16 bytes take general_cross_entropy()'s loops.)
#include <cmath>

#include "tensor/cuda/general_scores.cuh"

namespace tasuki::kernels {
namespace {

constexpr std::int64_t least_classes = 1024;

// The largest of some scores, and the sum of e^(score - largest).
struct Exponentials {
  float top = -INFINITY, sum = 0;

  template <int count>
  __device__ void add(const float (&scores)[count]) {
    float largest = top;
    for (int j = 0; j < count; ++j) largest = fmaxf(largest, scores[j]);
    if (largest > top) {
      sum *= expf(top - largest);
      top = largest;
    }
    // Minus infinity is as far from itself as any other number.
    const float base = top == -INFINITY ? 0.0f : top;
    for (int j = 0; j < count; ++j) sum += expf(scores[j] - base);
  }
};

struct Together {
  __device__ Exponentials operator()(Exponentials a, Exponentials b) const {
    const float top = fmaxf(a.top, b.top), base = top == -INFINITY ? 0.0f : top;
    return {top, a.sum * expf(a.top - base) + b.sum * expf(b.top - base)};
  }
};

template <class T, class Label>
__global__ void __launch_bounds__(block_threads)
    long_rows_kernel(const T* x, const Label* labels, std::int64_t items, std::int64_t classes,
                     std::int64_t ignored_label, float* tops, float* sums, float* losses) {
  constexpr int width = Pack<T>::width, warps = block_threads / 32;
  __shared__ Exponentials of_warps[warps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (std::int64_t i = blockIdx.x; i < items; i += gridDim.x) {
    const T* const row = x + i * classes;
    Exponentials found;
    for (int at = threadIdx.x; at < static_cast<int>(classes / width); at += block_threads) {
      const Pack<T> pack = load_pack(row, at);
      float scores[width];
      for (int j = 0; j < width; ++j) scores[j] = convert<float>(pack.values[j]);
      found.add(scores);
    }
    for (int step = 16; step > 0; step /= 2)
      found = Together()(
          found, {__shfl_xor_sync(~0u, found.top, step), __shfl_xor_sync(~0u, found.sum, step)});
    __syncthreads();  // the row before this one is done
    if (lane == 0) of_warps[warp] = found;
    __syncthreads();
    if (threadIdx.x != 0) continue;
    for (int other = 1; other < warps; ++other) found = Together()(found, of_warps[other]);
    tops[i] = found.top;
    sums[i] = found.sum;
    const std::int64_t label = labels[i];
    if (label == ignored_label)
      losses[i] = 0;
    else if (label < 0 || label >= classes)
      losses[i] = NAN;
    else
      losses[i] = logf(found.sum) - (convert<float>(row[label]) - found.top);
  }
}

template <class T, class Label>
__global__ void __launch_bounds__(block_threads)
    long_rows_gradient_kernel(const T* x, const Label* labels, std::int64_t items,
                              std::int64_t classes, std::int64_t ignored_label, const float* tops,
                              const float* sums, const std::int64_t* counted, const float* dy,
                              T* dx) {
  constexpr int width = Pack<T>::width;
  const float factor = *dy / static_cast<float>(*counted > 0 ? *counted : 1);
  for (std::int64_t i = blockIdx.x; i < items; i += gridDim.x) {
    const std::int64_t label = labels[i];
    const bool counts = label != ignored_label && label >= 0 && label < classes;
    const float top = tops[i], scale = counts ? factor / sums[i] : 0.0f;
    for (int at = threadIdx.x; at < static_cast<int>(classes / width); at += block_threads) {
      Pack<T> out = {};
      if (counts) {
        const Pack<T> pack = load_pack(x + i * classes, at);
        for (int j = 0; j < width; ++j) {
          float value = scale * expf(convert<float>(pack.values[j]) - top);
          if (at * width + j == label) value -= factor;
          out.values[j] = convert<T>(value);
        }
      }
      store_pack(dx + i * classes, at, out);
    }
  }
}

unsigned grid_of(const Launch& launch, std::int64_t items) {
  return grid_for(launch, items * block_threads);
}

}  // namespace

bool are_long_rows(const GeneralScores& scores, const void* dx) {
  const std::int64_t width = scores.type == DType::float32 ? 4 : 8;
  return scores.inner == 1 && scores.smoothing == 0 && scores.class_weights == nullptr &&
         scores.classes >= least_classes && scores.classes < (std::int64_t{1} << 31) &&
         scores.classes % width == 0 && are_aligned(scores.values, dx);
}

void long_rows_cross_entropy(const Launch& launch, const GeneralScores& scores, float* tops,
                             float* sums, float* losses) {
  if (scores.outer == 0) return;
  with_scores(scores, [&](auto type, const auto* labels) {
    using T = typename decltype(type)::type;
    long_rows_kernel<<<grid_of(launch, scores.outer), block_threads, 0, launch.stream>>>(
        static_cast<const T*>(scores.values), labels, scores.outer, scores.classes,
        scores.ignored_label, tops, sums, losses);
  });
}

void long_rows_cross_entropy_gradient(const Launch& launch, const GeneralScores& scores,
                                      const float* tops, const float* sums,
                                      const std::int64_t* counted, const float* dy, void* dx) {
  with_scores(scores, [&](auto type, const auto* labels) {
    using T = typename decltype(type)::type;
    long_rows_gradient_kernel<<<grid_of(launch, scores.outer), block_threads, 0, launch.stream>>>(
        static_cast<const T*>(scores.values), labels, scores.outer, scores.classes,
        scores.ignored_label, tops, sums, counted, dy, static_cast<T*>(dx));
  });
}

}  // namespace tasuki::kernels
