// One thread per element of the result; channels last, for 16 bytes of channels, where they consist
// of such packs. Backward passes gather, too: an element of dx adds up the windows that contain it,
// always in the same order.
#include "tensor/cuda/pooling_kernels.hpp"

#include <limits>

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

// Where V values of the result lie in their image, and that image's counterpart on the other side,
// in units of V values: where it begins, and the step from pixel to pixel.
struct Place {
  int row, column;
  std::int64_t begin, step;
};

// `packs`: the channels in units of V. `Index` has room for all values of the result.
template <class Index>
__device__ Place place_of(Index i, const PoolingSize& s, Index packs, std::int64_t height,
                          std::int64_t width, std::int64_t other_pixels) {
  Place place;
  Index pack = 0;
  if (s.channels_last) {
    pack = i % packs;
    i /= packs;
  }
  const Index rows = i / static_cast<Index>(width);
  place.column = static_cast<int>(i - rows * static_cast<Index>(width));
  const Index images = rows / static_cast<Index>(height);
  place.row = static_cast<int>(rows - images * static_cast<Index>(height));
  place.step = s.channels_last ? packs : 1;
  place.begin = static_cast<std::int64_t>(images) * other_pixels * place.step + pack;
  return place;
}

__device__ int clamp_low(int value) {
  return value < 0 ? 0 : value;
}

// Windows [begin, end) along one axis that contain element `at`.
struct Range {
  int begin, end;
};

__device__ Range windows_with(int at, int kernel, int stride, int pad, std::int64_t count) {
  const auto shifted = static_cast<unsigned>(at + pad), step = static_cast<unsigned>(stride);
  const auto size = static_cast<unsigned>(kernel);
  const int begin = shifted < size ? 0 : static_cast<int>((shifted - size) / step) + 1;
  const int last = static_cast<int>(shifted / step);
  return {begin, last < count ? last + 1 : static_cast<int>(count)};
}

template <class T, int V, class Index>
__global__ void max_pool_kernel(T* y, const T* x, std::uint16_t* places, Index count, Index packs,
                                PoolingSize s) {
  for (std::int64_t at = thread_index(); at < count; at += thread_count()) {
    const Place place =
        place_of(static_cast<Index>(at), s, packs, s.out_height, s.out_width, s.height * s.width);
    const int top = place.row * s.stride_h - s.pad_h, left = place.column * s.stride_w - s.pad_w;
    float largest[V];
    Values<std::uint16_t, V> found;
    const int first = clamp_low(-top) * s.kernel_w + clamp_low(-left);  // that is in the image
    for (int j = 0; j < V; ++j) {
      largest[j] = -std::numeric_limits<float>::infinity();
      found.values[j] = static_cast<std::uint16_t>(first);
    }
    for (int a = clamp_low(-top); a < s.kernel_h && top + a < s.height; ++a)
      for (int b = clamp_low(-left); b < s.kernel_w && left + b < s.width; ++b) {
        const Values<T, V> in =
            load<V>(x, place.begin + ((top + a) * s.width + left + b) * place.step);
        for (int j = 0; j < V; ++j) {
          const float value = convert<float>(in.values[j]);
          if (value > largest[j] || (value != value && largest[j] == largest[j])) {
            largest[j] = value;
            found.values[j] = static_cast<std::uint16_t>(a * s.kernel_w + b);
          }
        }
      }
    Values<T, V> out;
    for (int j = 0; j < V; ++j) out.values[j] = convert<T>(largest[j]);
    store<V>(y, at, out);
    if (places != nullptr) store<V>(places, at, found);
  }
}

template <class T, int V, class Index>
__global__ void max_pool_backward_kernel(T* dx, const T* dy, const std::uint16_t* places,
                                         Index count, Index packs, PoolingSize s) {
  for (std::int64_t at = thread_index(); at < count; at += thread_count()) {
    const Place place =
        place_of(static_cast<Index>(at), s, packs, s.height, s.width, s.out_height * s.out_width);
    const Range rows = windows_with(place.row, s.kernel_h, s.stride_h, s.pad_h, s.out_height);
    const Range columns = windows_with(place.column, s.kernel_w, s.stride_w, s.pad_w, s.out_width);
    float sum[V] = {};
    for (int a = rows.begin; a < rows.end; ++a)
      for (int b = columns.begin; b < columns.end; ++b) {
        const std::int64_t from = place.begin + (a * s.out_width + b) * place.step;
        const int within = (place.row + s.pad_h - a * s.stride_h) * s.kernel_w + place.column +
                           s.pad_w - b * s.stride_w;
        const Values<T, V> upstream = load<V>(dy, from);
        const Values<std::uint16_t, V> found = load<V>(places, from);
        for (int j = 0; j < V; ++j)
          if (found.values[j] == within) sum[j] += convert<float>(upstream.values[j]);
      }
    Values<T, V> out;
    for (int j = 0; j < V; ++j) out.values[j] = convert<T>(sum[j]);
    store<V>(dx, at, out);
  }
}

template <class T, int V, class Index>
__global__ void average_pool_kernel(T* y, const T* x, Index count, Index packs, PoolingSize s,
                                    bool relu) {
  const float share = 1.0f / static_cast<float>(s.kernel_h * s.kernel_w);
  for (std::int64_t at = thread_index(); at < count; at += thread_count()) {
    const Place place =
        place_of(static_cast<Index>(at), s, packs, s.out_height, s.out_width, s.height * s.width);
    const int top = place.row * s.stride_h - s.pad_h, left = place.column * s.stride_w - s.pad_w;
    float sum[V] = {};
    for (int a = clamp_low(-top); a < s.kernel_h && top + a < s.height; ++a)
#pragma unroll 4
      for (int b = clamp_low(-left); b < s.kernel_w && left + b < s.width; ++b) {
        const Values<T, V> in =
            load<V>(x, place.begin + ((top + a) * s.width + left + b) * place.step);
        for (int j = 0; j < V; ++j) {
          const float value = convert<float>(in.values[j]);
          sum[j] += relu && value < 0 ? 0.0f : value;  // a NaN stays
        }
      }
    Values<T, V> out;
    for (int j = 0; j < V; ++j) out.values[j] = convert<T>(sum[j] * share);
    store<V>(y, at, out);
  }
}

template <class T, int V, class Index>
__global__ void average_pool_backward_kernel(T* dx, const T* dy, const T* relu_of, Index count,
                                             Index packs, PoolingSize s) {
  const float share = 1.0f / static_cast<float>(s.kernel_h * s.kernel_w);
  for (std::int64_t at = thread_index(); at < count; at += thread_count()) {
    const Place place =
        place_of(static_cast<Index>(at), s, packs, s.height, s.width, s.out_height * s.out_width);
    const Range rows = windows_with(place.row, s.kernel_h, s.stride_h, s.pad_h, s.out_height);
    const Range columns = windows_with(place.column, s.kernel_w, s.stride_w, s.pad_w, s.out_width);
    float sum[V] = {};
    for (int a = rows.begin; a < rows.end; ++a)
      for (int b = columns.begin; b < columns.end; ++b) {
        const Values<T, V> upstream = load<V>(dy, place.begin + (a * s.out_width + b) * place.step);
        for (int j = 0; j < V; ++j) sum[j] += convert<float>(upstream.values[j]);
      }
    if (relu_of != nullptr) {
      const Values<T, V> x = load<V>(relu_of, at);
      for (int j = 0; j < V; ++j)
        if (!(convert<float>(x.values[j]) > 0)) sum[j] = 0;
    }
    Values<T, V> out;
    for (int j = 0; j < V; ++j) out.values[j] = convert<T>(sum[j] * share);
    store<V>(dx, at, out);
  }
}

std::int64_t count_in(const PoolingSize& s) {
  return s.items * s.channels * s.height * s.width;
}
std::int64_t count_out(const PoolingSize& s) {
  return s.items * s.channels * s.out_height * s.out_width;
}

// How the threads of a kernel share `values` of its result: V at once, counted by Index.
template <int V, class IndexType>
struct Share {
  using Index = IndexType;
  static constexpr int width = V;
  Index count, packs;
};

// visitor(Share) with the widest V that the layout, the channels and the arrays allow.
template <class T, class Visitor, class... Arrays>
void with_work(const PoolingSize& s, std::int64_t values, Visitor&& visitor, Arrays... arrays) {
  const auto sized = [&](auto width) {
    constexpr int v = decltype(width)::value;
    const std::int64_t count = values / v, packs = s.channels / v;
    with_index(count, [&](auto index) {
      using Index = decltype(index);
      visitor(Share<v, Index>{static_cast<Index>(count), static_cast<Index>(packs)});
    });
  };
  constexpr int widest = Pack<T>::width;
  if (s.channels_last && s.channels % widest == 0 && are_aligned(arrays...))
    sized(std::integral_constant<int, widest>{});
  else
    sized(std::integral_constant<int, 1>{});
}

}  // namespace

void max_pool(const Launch& launch, DType type, void* y, const void* x, std::uint16_t* places,
              const PoolingSize& size) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_work<T>(
        size, count_out(size),
        [&](auto work) {
          using Work = decltype(work);
          max_pool_kernel<T, Work::width, typename Work::Index>
              <<<grid_for(launch, work.count), block_threads, 0, launch.stream>>>(
                  static_cast<T*>(y), static_cast<const T*>(x), places, work.count, work.packs,
                  size);
        },
        y, x, places);
  });
}

void max_pool_backward(const Launch& launch, DType type, void* dx, const void* dy,
                       const std::uint16_t* places, const PoolingSize& size) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_work<T>(
        size, count_in(size),
        [&](auto work) {
          using Work = decltype(work);
          max_pool_backward_kernel<T, Work::width, typename Work::Index>
              <<<grid_for(launch, work.count), block_threads, 0, launch.stream>>>(
                  static_cast<T*>(dx), static_cast<const T*>(dy), places, work.count, work.packs,
                  size);
        },
        dx, dy, places);
  });
}

void average_pool(const Launch& launch, DType type, void* y, const void* x, const PoolingSize& size,
                  bool relu) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_work<T>(
        size, count_out(size),
        [&](auto work) {
          using Work = decltype(work);
          average_pool_kernel<T, Work::width, typename Work::Index>
              <<<grid_for(launch, work.count), block_threads, 0, launch.stream>>>(
                  static_cast<T*>(y), static_cast<const T*>(x), work.count, work.packs, size, relu);
        },
        y, x);
  });
}

void average_pool_backward(const Launch& launch, DType type, void* dx, const void* dy,
                           const void* relu_of, const PoolingSize& size) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_work<T>(
        size, count_in(size),
        [&](auto work) {
          using Work = decltype(work);
          average_pool_backward_kernel<T, Work::width, typename Work::Index>
              <<<grid_for(launch, work.count), block_threads, 0, launch.stream>>>(
                  static_cast<T*>(dx), static_cast<const T*>(dy), static_cast<const T*>(relu_of),
                  work.count, work.packs, size);
        },
        dx, dy, relu_of);
  });
}

}  // namespace tasuki::kernels
