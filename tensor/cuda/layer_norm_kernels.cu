// Layer normalisation of rows that a warp can keep in registers: each is read once, in packs. The
// means are those of normalization_kernels.cu, added in another order.
#include <cmath>

#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/normalization_kernels.hpp"

namespace tasuki::kernels {
namespace {

constexpr int warps = 4;

// A lane's packs of a row: lane, lane + 32, ...; zeros where the row has none.
template <int most, class T>
struct RowPart {
  static constexpr int width = Pack<T>::width;
  float values[most][width];

  __device__ RowPart(const T* row, int packs) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < most; ++p) {
      const bool is_there = lane + 32 * p < packs;
      Pack<T> pack = {};
      if (is_there) pack = load_pack(row, lane + 32 * p);
#pragma unroll
      for (int v = 0; v < width; ++v) values[p][v] = is_there ? convert<float>(pack.values[v]) : 0;
    }
  }

  // Calls use(value, channel) for all values that are there.
  template <class Use>
  __device__ void each(int packs, Use&& use) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (lane + 32 * p >= packs) continue;
#pragma unroll
      for (int v = 0; v < width; ++v) use(values[p][v], (lane + 32 * p) * width + v);
    }
  }

  __device__ void add(const T* row, int packs) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (lane + 32 * p >= packs) continue;
      const Pack<T> pack = load_pack(row, lane + 32 * p);
#pragma unroll
      for (int v = 0; v < width; ++v) values[p][v] += convert<float>(pack.values[v]);
    }
  }

  __device__ void store(T* row, int packs) const {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int p = 0; p < most; ++p) {
      if (lane + 32 * p >= packs) continue;
      Pack<T> pack;
#pragma unroll
      for (int v = 0; v < width; ++v) pack.values[v] = convert<T>(values[p][v]);
      store_pack(row, lane + 32 * p, pack);
    }
  }
};

template <int most, class T>
__global__ void __launch_bounds__(32 * warps)
    layer_norm_kernel(std::int64_t rows, int length, const T* x, const float* gamma,
                      const float* beta, float eps, T* y, float* statistics) {
  const int packs = length / Pack<T>::width;
  for (std::int64_t i = thread_index() / 32; i < rows; i += thread_count() / 32) {
    RowPart<most, T> row(x + i * length, packs);
    float sum = 0;
    row.each(packs, [&](float& value, int) { sum += value; });
    const float mean = warp_reduce(sum, Plus()) / static_cast<float>(length);
    float squares = 0;
    row.each(packs, [&](float& value, int) {
      value -= mean;
      squares += value * value;
    });
    const float inverse =
        1 / sqrtf(warp_reduce(squares, Plus()) / static_cast<float>(length) + eps);
    row.each(packs, [&](float& value, int channel) {
      value = gamma[channel] * (value * inverse) + beta[channel];
    });
    row.store(y + i * length, packs);
    if (threadIdx.x % 32 == 0) {
      statistics[2 * i] = mean;
      statistics[2 * i + 1] = inverse;
    }
  }
}

template <int most, class T>
__global__ void __launch_bounds__(32 * warps)
    layer_norm_gradient_kernel(std::int64_t rows, int length, const T* x, const float* statistics,
                               const T* dy, const float* gamma, const T* added, T* dx) {
  const int packs = length / Pack<T>::width;
  for (std::int64_t i = thread_index() / 32; i < rows; i += thread_count() / 32) {
    RowPart<most, T> row(x + i * length, packs), slopes(dy + i * length, packs);
    const float mean = statistics[2 * i], inverse = statistics[2 * i + 1];
    float sum = 0, product = 0;
    slopes.each(packs, [&](float& slope, int channel) {
      slope *= gamma[channel];
      sum += slope;
    });
    row.each(packs, [&](float& value, int) { value = (value - mean) * inverse; });
#pragma unroll
    for (int p = 0; p < most; ++p)
#pragma unroll
      for (int v = 0; v < Pack<T>::width; ++v) product += row.values[p][v] * slopes.values[p][v];
    const float mean_dy = warp_reduce(sum, Plus()) / static_cast<float>(length);
    const float mean_product = warp_reduce(product, Plus()) / static_cast<float>(length);
#pragma unroll
    for (int p = 0; p < most; ++p)
#pragma unroll
      for (int v = 0; v < Pack<T>::width; ++v)
        row.values[p][v] =
            inverse * (slopes.values[p][v] - mean_dy - row.values[p][v] * mean_product);
    if (added != nullptr) row.add(added + i * length, packs);
    row.store(dx + i * length, packs);
  }
}

// Calls run(Type<T>{}, packs) with a bound of a lane's packs as a constant.
template <class Run>
void with_packs(DType type, std::int64_t length, Run&& run) {
  with_float_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    if (length <= 32 * Pack<T>::width)
      run(element, std::integral_constant<int, 1>());
    else
      run(element, std::integral_constant<int, 4>());
  });
}

unsigned blocks_for(const Launch& launch, std::int64_t rows) {
  return static_cast<unsigned>(
      std::min<std::int64_t>((rows + warps - 1) / warps, launch.multiprocessors * 16));
}

}  // namespace

bool fits_layer_norm(DType type, const NormArray& array) {
  const auto width = static_cast<std::int64_t>(16 / size_of(type));
  return array.pixels == 1 && array.groups == 1 && array.channels % width == 0 &&
         array.channels <= 4 * 32 * width;
}

void layer_norm(const Launch& launch, DType type, const NormArray& array, const void* x,
                const float* gamma, const float* beta, float eps, void* y, float* statistics) {
  const unsigned grid = blocks_for(launch, array.items);
  with_packs(type, array.channels, [&](auto element, auto packs) {
    using T = typename decltype(element)::type;
    [[maybe_unused]] constexpr int most = decltype(packs)::value;
    layer_norm_kernel<most, T><<<grid, 32 * warps, 0, launch.stream>>>(
        array.items, static_cast<int>(array.channels), static_cast<const T*>(x), gamma, beta, eps,
        static_cast<T*>(y), statistics);
  });
}

void layer_norm_gradient(const Launch& launch, DType type, const NormArray& array, const void* x,
                         const float* statistics, const void* dy, const float* gamma,
                         const void* added, void* dx) {
  const unsigned grid = blocks_for(launch, array.items);
  with_packs(type, array.channels, [&](auto element, auto packs) {
    using T = typename decltype(element)::type;
    [[maybe_unused]] constexpr int most = decltype(packs)::value;
    layer_norm_gradient_kernel<most, T><<<grid, 32 * warps, 0, launch.stream>>>(
        array.items, static_cast<int>(array.channels), static_cast<const T*>(x), statistics,
        static_cast<const T*>(dy), gamma, static_cast<const T*>(added), static_cast<T*>(dx));
  });
}

}  // namespace tasuki::kernels
