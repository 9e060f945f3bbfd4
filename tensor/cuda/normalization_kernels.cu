#include <cmath>

#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/normalization_kernels.hpp"

namespace tasuki::kernels {
namespace {

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Over the lanes of a row: one, or a warp.
template <int lanes, class Op>
__device__ float over_lanes(float value, Op op) {
  if constexpr (lanes == 32)
    return warp_reduce(value, op);
  else
    return value;
}

// A row is read by a warp if its elements are neighbours; otherwise by a thread, because then
// neighbouring threads read neighbouring rows.
template <int lanes, class T>
__global__ void softmax_kernel(Axis axis, const T* x, T* y, bool logarithm) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t rows = axis.outer * axis.inner;
  for (std::int64_t i = thread_index() / lanes; i < rows; i += thread_count() / lanes) {
    const std::int64_t at = i / axis.inner * axis.length * axis.inner + i % axis.inner;
    float top = -INFINITY;
    for (std::int64_t j = lane; j < axis.length; j += lanes)
      top = fmaxf(top, convert<float>(x[at + j * axis.inner]));
    top = over_lanes<lanes>(top, Larger());
    float sum = 0;
    for (std::int64_t j = lane; j < axis.length; j += lanes)
      sum += expf(convert<float>(x[at + j * axis.inner]) - top);
    sum = over_lanes<lanes>(sum, Plus());
    const float log_sum = logf(sum), factor = 1 / sum;
    for (std::int64_t j = lane; j < axis.length; j += lanes) {
      const float value = convert<float>(x[at + j * axis.inner]);
      // top + log_sum would lose digits of a small logarithm.
      y[at + j * axis.inner] =
          convert<T>(logarithm ? (value - top) - log_sum : expf(value - top) * factor);
    }
  }
}

template <int lanes, class T>
__global__ void softmax_gradient_kernel(Axis axis, const T* y, const T* dy, T* dx, bool logarithm) {
  const int lane = threadIdx.x % lanes;
  const std::int64_t rows = axis.outer * axis.inner;
  for (std::int64_t i = thread_index() / lanes; i < rows; i += thread_count() / lanes) {
    const std::int64_t at = i / axis.inner * axis.length * axis.inner + i % axis.inner;
    float sum = 0;
    for (std::int64_t j = lane; j < axis.length; j += lanes) {
      const std::int64_t k = at + j * axis.inner;
      sum += convert<float>(dy[k]) * (logarithm ? 1.0f : convert<float>(y[k]));
    }
    sum = over_lanes<lanes>(sum, Plus());
    for (std::int64_t j = lane; j < axis.length; j += lanes) {
      const std::int64_t k = at + j * axis.inner;
      const float value = convert<float>(y[k]), upstream = convert<float>(dy[k]);
      dx[k] = convert<T>(logarithm ? upstream - expf(value) * sum : value * (upstream - sum));
    }
  }
}

// Sums over a block, in all of its threads.
struct BlockTotal {
  float parts[32];
  float total;
  __device__ float operator()(float value) {
    value = block_sum(value, parts);
    if (threadIdx.x == 0) total = value;
    __syncthreads();
    return total;
  }
};

// A block per row, whose elements are numbered by Index. In two passes, so that a large mean costs
// the variance no digits.
template <class Index, class T>
__global__ void normalize_kernel(NormArray array, const T* x, const float* gamma, const float* beta,
                                 float eps, T* y, float* statistics) {
  __shared__ BlockTotal total;
  const std::int64_t length = array.channels * array.pixels;
  const auto pixels = static_cast<Index>(array.pixels);
  for (std::int64_t i = blockIdx.x; i < array.items * array.groups; i += gridDim.x) {
    const T* const row = x + i * length;
    const std::int64_t channel = i % array.groups * array.channels;
    float sum = 0;
    for (std::int64_t j = threadIdx.x; j < length; j += blockDim.x) sum += convert<float>(row[j]);
    const float mean = total(sum) / static_cast<float>(length);
    float squares = 0;
    for (std::int64_t j = threadIdx.x; j < length; j += blockDim.x) {
      const float centred = convert<float>(row[j]) - mean;
      squares += centred * centred;
    }
    const float inverse = 1 / sqrtf(total(squares) / static_cast<float>(length) + eps);
    for (std::int64_t j = threadIdx.x; j < length; j += blockDim.x) {
      const std::int64_t c = channel + static_cast<Index>(j) / pixels;
      y[i * length + j] =
          convert<T>(gamma[c] * ((convert<float>(row[j]) - mean) * inverse) + beta[c]);
    }
    if (threadIdx.x == 0) {
      statistics[2 * i] = mean;
      statistics[2 * i + 1] = inverse;
    }
  }
}

template <class Index, class T>
__global__ void normalize_gradient_kernel(NormArray array, const T* x, const float* statistics,
                                          const T* dy, const float* gamma, const T* added, T* dx) {
  __shared__ BlockTotal total;
  const std::int64_t length = array.channels * array.pixels;
  const auto pixels = static_cast<Index>(array.pixels);
  for (std::int64_t i = blockIdx.x; i < array.items * array.groups; i += gridDim.x) {
    const float mean = statistics[2 * i], inverse = statistics[2 * i + 1];
    const std::int64_t channel = i % array.groups * array.channels;
    float sum = 0, product = 0;
    for (std::int64_t j = threadIdx.x; j < length; j += blockDim.x) {
      const float slope =
          gamma[channel + static_cast<Index>(j) / pixels] * convert<float>(dy[i * length + j]);
      sum += slope;
      product += slope * ((convert<float>(x[i * length + j]) - mean) * inverse);
    }
    const float mean_dy = total(sum) / static_cast<float>(length);
    const float mean_product = total(product) / static_cast<float>(length);
    for (std::int64_t j = threadIdx.x; j < length; j += blockDim.x) {
      const float slope =
          gamma[channel + static_cast<Index>(j) / pixels] * convert<float>(dy[i * length + j]);
      const float normalised = (convert<float>(x[i * length + j]) - mean) * inverse;
      const float own = inverse * (slope - mean_dy - normalised * mean_product);
      dx[i * length + j] =
          convert<T>(added != nullptr ? convert<float>(added[i * length + j]) + own : own);
    }
  }
}

// Of channels of one pixel: a thread per channel, a block row (blockIdx.y) per part of the items.
template <class T>
__global__ void column_parameters_kernel(NormArray array, const T* x, const float* statistics,
                                         const T* dy, float* parts) {
  const std::int64_t channels = array.groups * array.channels;
  const std::int64_t c = thread_index();
  if (c >= channels) return;
  const std::int64_t part = blockIdx.y, count = gridDim.y, group = c / array.channels;
  const std::int64_t end = array.items * (part + 1) / count;
  float product = 0, sum = 0;
  for (std::int64_t n = array.items * part / count; n < end; ++n) {
    const std::int64_t row = n * array.groups + group;
    const float upstream = convert<float>(dy[n * channels + c]);
    sum += upstream;
    product += upstream * ((convert<float>(x[n * channels + c]) - statistics[2 * row]) *
                           statistics[2 * row + 1]);
  }
  parts[part * 2 * channels + c] = product;
  parts[part * 2 * channels + channels + c] = sum;
}

// Of channels of several pixels: a block per channel, whose elements are numbered by Index.
template <class Index, class T>
__global__ void channel_parameters_kernel(NormArray array, const T* x, const float* statistics,
                                          const T* dy, float* sums) {
  __shared__ BlockTotal total;
  const std::int64_t channels = array.groups * array.channels, c = blockIdx.x;
  const std::int64_t group = c / array.channels;
  float product = 0, sum = 0;
  for (std::int64_t k = threadIdx.x; k < array.items * array.pixels; k += blockDim.x) {
    const auto [n, pixel] = divide(static_cast<Index>(k), static_cast<Index>(array.pixels));
    const std::int64_t at = (n * channels + c) * array.pixels + pixel;
    const std::int64_t row = n * array.groups + group;
    const float upstream = convert<float>(dy[at]);
    sum += upstream;
    product += upstream * ((convert<float>(x[at]) - statistics[2 * row]) * statistics[2 * row + 1]);
  }
  product = total(product);
  sum = total(sum);
  if (threadIdx.x != 0) return;
  sums[c] = product;
  sums[channels + c] = sum;
}

// A block for 32 channels, of whose parts each warp adds some.
__global__ void add_parts_kernel(const float* parts, std::int64_t count, std::int64_t channels,
                                 float* dgamma, float* dbeta, bool accumulate) {
  constexpr int warps = block_threads / 32;
  __shared__ float products[warps][32], sums[warps][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t c = std::int64_t{blockIdx.x} * 32 + lane;
  float product = 0, sum = 0;
  if (c < channels)
    for (std::int64_t p = warp; p < count; p += warps) {
      product += parts[p * 2 * channels + c];
      sum += parts[p * 2 * channels + channels + c];
    }
  products[warp][lane] = product;
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp != 0 || c >= channels) return;
  product = accumulate ? dgamma[c] : 0;
  sum = accumulate ? dbeta[c] : 0;
  for (int w = 0; w < warps; ++w) {
    product += products[w][lane];
    sum += sums[w][lane];
  }
  dgamma[c] = product;
  dbeta[c] = sum;
}

// Calls run(Type<T>{}, lanes) with the number of threads that read a row, as a constant.
template <class Run>
void with_lanes(DType type, const Axis& axis, Run&& run) {
  with_float_type(type, [&](auto element) {
    if (axis.inner == 1)
      run(element, std::integral_constant<int, 32>());
    else
      run(element, std::integral_constant<int, 1>());
  });
}

// Threads of a block for a row of this length, and blocks.
int threads_for(std::int64_t length) {
  return static_cast<int>(std::clamp<std::int64_t>((length + 127) / 128, 1, 8)) * 32;
}
unsigned blocks_for(const Launch& launch, std::int64_t rows) {
  return static_cast<unsigned>(std::min<std::int64_t>(rows, launch.multiprocessors * 32));
}

}  // namespace

void softmax(const Launch& launch, DType type, const Axis& axis, const void* x, void* y,
             bool logarithm) {
  with_lanes(type, axis, [&](auto element, auto lanes) {
    using T = typename decltype(element)::type;
    constexpr int n = decltype(lanes)::value;
    const unsigned grid = grid_for(launch, axis.outer * axis.inner * n);
    softmax_kernel<n, T><<<grid, block_threads, 0, launch.stream>>>(axis, static_cast<const T*>(x),
                                                                    static_cast<T*>(y), logarithm);
  });
}

void softmax_gradient(const Launch& launch, DType type, const Axis& axis, const void* y,
                      const void* dy, void* dx, bool logarithm) {
  with_lanes(type, axis, [&](auto element, auto lanes) {
    using T = typename decltype(element)::type;
    constexpr int n = decltype(lanes)::value;
    const unsigned grid = grid_for(launch, axis.outer * axis.inner * n);
    softmax_gradient_kernel<n, T><<<grid, block_threads, 0, launch.stream>>>(
        axis, static_cast<const T*>(y), static_cast<const T*>(dy), static_cast<T*>(dx), logarithm);
  });
}

void normalize(const Launch& launch, DType type, const NormArray& array, const void* x,
               const float* gamma, const float* beta, float eps, void* y, float* statistics) {
  if (fits_layer_norm(type, array) && are_aligned(x, y))
    return layer_norm(launch, type, array, x, gamma, beta, eps, y, statistics);
  const unsigned grid = blocks_for(launch, array.items * array.groups);
  const std::int64_t length = array.channels * array.pixels;
  const int threads = threads_for(length);
  with_float_type(type, [&](auto element) {
    with_index(length, [&](auto index) {
      using T = typename decltype(element)::type;
      normalize_kernel<decltype(index)><<<grid, threads, 0, launch.stream>>>(
          array, static_cast<const T*>(x), gamma, beta, eps, static_cast<T*>(y), statistics);
    });
  });
}

void normalize_gradient(const Launch& launch, DType type, const NormArray& array, const void* x,
                        const float* statistics, const void* dy, const float* gamma,
                        const void* added, void* dx) {
  if (fits_layer_norm(type, array) && are_aligned(x, dy, added, dx))
    return layer_norm_gradient(launch, type, array, x, statistics, dy, gamma, added, dx);
  const unsigned grid = blocks_for(launch, array.items * array.groups);
  const std::int64_t length = array.channels * array.pixels;
  const int threads = threads_for(length);
  with_float_type(type, [&](auto element) {
    with_index(length, [&](auto index) {
      using T = typename decltype(element)::type;
      normalize_gradient_kernel<decltype(index)><<<grid, threads, 0, launch.stream>>>(
          array, static_cast<const T*>(x), statistics, static_cast<const T*>(dy), gamma,
          static_cast<const T*>(added), static_cast<T*>(dx));
    });
  });
}

std::int64_t norm_parts(const Launch& launch, const NormArray& array) {
  if (array.pixels > 1) return 1;
  const std::int64_t columns = (array.groups * array.channels + block_threads - 1) / block_threads;
  const std::int64_t filling = std::max<std::int64_t>(launch.multiprocessors * 4 / columns, 1);
  return std::min(filling, (array.items + 15) / 16);
}

void normalize_parameters(const Launch& launch, DType type, const NormArray& array, const void* x,
                          const float* statistics, const void* dy, float* dgamma, float* dbeta,
                          bool accumulate, float* scratch) {
  const std::int64_t channels = array.groups * array.channels;
  const std::int64_t parts = norm_parts(launch, array);
  const auto blocks = static_cast<unsigned>((channels + block_threads - 1) / block_threads);
  with_float_type(type, [&](auto element) {
    using T = typename decltype(element)::type;
    const auto* const values = static_cast<const T*>(x);
    const auto* const upstream = static_cast<const T*>(dy);
    if (array.pixels == 1) {
      const dim3 grid(blocks, static_cast<unsigned>(parts));
      column_parameters_kernel<<<grid, block_threads, 0, launch.stream>>>(array, values, statistics,
                                                                          upstream, scratch);
    } else {
      const auto grid = static_cast<unsigned>(channels);
      with_index(array.items * array.pixels, [&](auto index) {
        channel_parameters_kernel<decltype(index)><<<grid, block_threads, 0, launch.stream>>>(
            array, values, statistics, upstream, scratch);
      });
    }
  });
  const auto of_sums = static_cast<unsigned>((channels + 31) / 32);
  add_parts_kernel<<<of_sums, block_threads, 0, launch.stream>>>(scratch, parts, channels, dgamma,
                                                                 dbeta, accumulate);
}

}  // namespace tasuki::kernels
