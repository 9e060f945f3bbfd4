#include "tensor/cuda/filter_kernels.hpp"

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

template <class To, class From>
__global__ void convert_kernel(To* to, const From* from, std::int64_t count, bool accumulate) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const float value = convert<float>(from[i]);
    to[i] = convert<To>(accumulate ? convert<float>(to[i]) + value : value);
  }
}

// To convert between the two orders, a block takes some inputs of one output at a time through
// shared memory, so that neighbours in memory are read and written together on both sides: I x P
// contiguous values on one side, P rows of inputs on the other.
constexpr std::int64_t chunk_inputs = 64;

struct Chunk {
  std::int64_t plain;          // where it begins in the plain order
  std::int64_t channels_last;  // and in the other
  int inputs, padded_inputs;
};

__device__ Chunk chunk_of(std::int64_t i, const FilterSize& size, std::int64_t chunks) {
  const std::int64_t output = i / chunks, first = i % chunks * chunk_inputs;
  const std::int64_t left = size.inputs - first, padded_left = size.padded_inputs - first;
  return {(output * size.inputs + first) * size.places,
          output * size.places * size.padded_inputs + first,
          static_cast<int>(left < chunk_inputs ? left : chunk_inputs),
          // The last chunk of inputs has all that is added to them.
          static_cast<int>(left <= chunk_inputs ? padded_left : chunk_inputs)};
}

std::int64_t __host__ __device__ chunks_of(const FilterSize& size) {
  return (size.inputs + chunk_inputs - 1) / chunk_inputs;
}

constexpr std::size_t most_filters = 32;

struct FilterCopies {
  FilterCopy filters[most_filters];
  std::int64_t ends[most_filters];  // of the chunks of all outputs, numbered filter by filter
  std::int64_t chunks;
};

template <class To, class From>
__global__ void to_channels_last_kernel(const __grid_constant__ FilterCopies copies) {
  __shared__ float staged[chunk_inputs * most_filter_places];
  int which = 0;
  std::int64_t begin = 0;  // the first chunk of this filter
  for (std::int64_t t = blockIdx.x; t < copies.chunks; t += gridDim.x) {
    for (; t >= copies.ends[which]; ++which) begin = copies.ends[which];
    const FilterSize& size = copies.filters[which].size;
    const auto* const from = static_cast<const From*>(copies.filters[which].from);
    auto* const to = static_cast<To*>(copies.filters[which].to);
    const int places = static_cast<int>(size.places);
    const Chunk chunk = chunk_of(t - begin, size, chunks_of(size));
    const int count = chunk.inputs * places;
    for (int i = threadIdx.x; i < count; i += blockDim.x)
      staged[i] = convert<float>(from[chunk.plain + i]);
    __syncthreads();
    for (int i = threadIdx.x; i < chunk.padded_inputs * places; i += blockDim.x) {
      const int place = i / chunk.padded_inputs, input = i % chunk.padded_inputs;
      to[chunk.channels_last + place * size.padded_inputs + input] =
          convert<To>(input < chunk.inputs ? staged[input * places + place] : 0.0f);
    }
    __syncthreads();
  }
}

template <class From>
__global__ void from_channels_last_kernel(float* to, const From* from, FilterSize size,
                                          std::int64_t chunks, bool accumulate) {
  __shared__ float staged[chunk_inputs * most_filter_places];
  const int places = static_cast<int>(size.places);
  for (std::int64_t t = blockIdx.x; t < size.outputs * chunks; t += gridDim.x) {
    const Chunk chunk = chunk_of(t, size, chunks);
    const int count = chunk.inputs * places;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      const int place = i / chunk.inputs, input = i % chunk.inputs;
      staged[input * places + place] =
          convert<float>(from[chunk.channels_last + place * size.padded_inputs + input]);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
      float& gradient = to[chunk.plain + i];
      gradient = accumulate ? gradient + staged[i] : staged[i];
    }
    __syncthreads();
  }
}

unsigned grid_for_chunks(const Launch& launch, std::int64_t chunks) {
  return static_cast<unsigned>(
      std::min<std::int64_t>(chunks, std::int64_t{launch.multiprocessors} * 16));
}

template <class Index, class T>
__global__ void pad_channels_kernel(T* to, const T* from, std::int64_t packs, ImageSize size,
                                    bool channels_last) {
  const auto packs_per_pixel = static_cast<Index>(size.padded_channels / Pack<T>::width);
  for (std::int64_t i = thread_index(); i < packs; i += thread_count()) {
    // `at`: among the pixels of all images.
    const auto [at, pack_of_pixel] = divide(static_cast<Index>(i), packs_per_pixel);
    const auto [item, pixel] = divide(at, static_cast<Index>(size.pixels));
    Pack<T> pack;
    for (int j = 0; j < Pack<T>::width; ++j) {
      const std::int64_t c = std::int64_t{pack_of_pixel} * Pack<T>::width + j;
      pack.values[j] = c >= size.channels ? convert<T>(0.0f)
                       : channels_last    ? from[at * size.channels + c]
                                          : from[(item * size.channels + c) * size.pixels + pixel];
    }
    store_pack(to, i, pack);
  }
}

// A NaN stays. R: the type to which biases are rounded.
template <class R, class T, class B>
__device__ T biased(T value, B bias, bool relu) {
  const float sum = convert<float>(value) + convert<float>(convert<R>(bias));
  return convert<T>(relu && sum < 0 ? 0.0f : sum);
}

// Of the i-th value in memory.
template <class Index>
__device__ Index channel_of(std::int64_t i, const ImageCount& images, bool channels_last) {
  const auto at = static_cast<Index>(i), all = static_cast<Index>(images.channels);
  return channels_last ? at % all : at / static_cast<Index>(images.pixels) % all;
}

std::int64_t __host__ __device__ values_of(const ImageCount& images) {
  return images.items * images.channels * images.pixels;
}

template <class Index, class R, class T, class B>
__global__ void add_bias_kernel(T* y, const B* bias, ImageCount images, bool channels_last,
                                bool relu) {
  for (std::int64_t i = thread_index(); i < values_of(images); i += thread_count())
    y[i] = biased<R>(y[i], bias[channel_of<Index>(i, images, channels_last)], relu);
}

template <class Index, class T>
__global__ void count_differing_kernel(const T* y, const float* expected, ImageCount images,
                                       bool channels_last, Tolerance tolerance,
                                       unsigned long long* count) {
  unsigned long long differing = 0;
  for (std::int64_t i = thread_index(); i < values_of(images); i += thread_count()) {
    const float value = convert<float>(y[i]),
                wanted = expected[channel_of<Index>(i, images, channels_last)];
    // Of infinities the distance is infinite or NaN.
    const bool is_near =
        fabsf(value - wanted) <= tolerance.absolute + tolerance.relative * fabsf(wanted) &&
        !isinf(wanted);
    if (value != wanted && !is_near && !(isnan(value) && isnan(wanted))) ++differing;
  }
  if (differing > 0) atomicAdd(count, differing);
}

// Sixteen bytes of one pixel's channels at a time; the number of channels is a multiple of that.
template <class Index, class R, class T, class B>
__global__ void add_bias_packed_kernel(T* y, const B* bias, std::int64_t packs,
                                       std::int64_t packs_per_pixel, bool relu) {
  for (std::int64_t i = thread_index(); i < packs; i += thread_count()) {
    const auto first = static_cast<Index>(i) % static_cast<Index>(packs_per_pixel) * Pack<T>::width;
    const B* const from = bias + first;
    Pack<T> pack = load_pack(y, i);
    for (int j = 0; j < Pack<T>::width; ++j)
      pack.values[j] = biased<R>(pack.values[j], from[j], relu);
    store_pack(y, i, pack);
  }
}

}  // namespace

void convert_filter(const Launch& launch, DType to_type, void* to, DType from_type,
                    const void* from, const FilterSize& size, bool channels_last) {
  const std::int64_t count = size.outputs * size.inputs * size.places;
  if (count == 0) return;
  const FilterCopy one{to, from, size};
  if (channels_last) return convert_filters(launch, to_type, from_type, {&one, 1});
  with_float_type(to_type, [&](auto to_tag) {
    with_float_type(from_type, [&](auto from_tag) {
      using To = typename decltype(to_tag)::type;
      using From = typename decltype(from_tag)::type;
      convert_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          static_cast<To*>(to), static_cast<const From*>(from), count, false);
    });
  });
}

void convert_filters(const Launch& launch, DType to_type, DType from_type,
                     std::span<const FilterCopy> filters) {
  for (std::size_t first = 0; first < filters.size(); first += most_filters) {
    FilterCopies copies{};
    const std::size_t count = std::min(most_filters, filters.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      copies.filters[i] = filters[first + i];
      copies.chunks += copies.filters[i].size.outputs * chunks_of(copies.filters[i].size);
      copies.ends[i] = copies.chunks;
    }
    with_float_type(to_type, [&](auto to_tag) {
      with_float_type(from_type, [&](auto from_tag) {
        using To = typename decltype(to_tag)::type;
        using From = typename decltype(from_tag)::type;
        const unsigned blocks = grid_for_chunks(launch, copies.chunks);
        to_channels_last_kernel<To, From><<<blocks, block_threads, 0, launch.stream>>>(copies);
      });
    });
  }
}

void convert_filter_gradient(const Launch& launch, float* to, DType type, const void* from,
                             const FilterSize& size, bool channels_last, bool accumulate) {
  const std::int64_t count = size.outputs * size.inputs * size.places;
  if (count == 0) return;
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* const source = static_cast<const T*>(from);
    if (!channels_last)
      return convert_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          to, source, count, accumulate);
    const std::int64_t chunks = chunks_of(size);
    const unsigned blocks = grid_for_chunks(launch, size.outputs * chunks);
    from_channels_last_kernel<<<blocks, block_threads, 0, launch.stream>>>(to, source, size, chunks,
                                                                           accumulate);
  });
}

void pad_channels(const Launch& launch, DType type, void* to, const void* from,
                  const ImageSize& size, bool channels_last) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::int64_t packs = size.items * size.pixels * (size.padded_channels / Pack<T>::width);
    if (packs == 0) return;
    with_index(packs, [&](auto index) {
      pad_channels_kernel<decltype(index)>
          <<<grid_for(launch, packs), block_threads, 0, launch.stream>>>(
              static_cast<T*>(to), static_cast<const T*>(from), packs, size, channels_last);
    });
  });
}

namespace {

template <class R, class T, class B>
void add_bias(const Launch& launch, T* y, const B* bias, const ImageCount& images,
              bool channels_last, bool relu) {
  const std::int64_t count = values_of(images);
  with_index(count, [&](auto index) {
    using Index = decltype(index);
    if (channels_last && images.channels % Pack<T>::width == 0 && are_aligned(y)) {
      const std::int64_t packs = count / Pack<T>::width;
      add_bias_packed_kernel<Index, R>
          <<<grid_for(launch, packs), block_threads, 0, launch.stream>>>(
              y, bias, packs, images.channels / Pack<T>::width, relu);
    } else {
      add_bias_kernel<Index, R><<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          y, bias, images, channels_last, relu);
    }
  });
}

}  // namespace

void add_bias(const Launch& launch, DType type, void* y, const ImageBias& bias,
              const ImageCount& images, bool channels_last, bool relu) {
  if (values_of(images) == 0) return;
  with_float_type(type, [&](auto tag) {
    with_float_type(bias.rounded, [&](auto rounded_tag) {
      using T = typename decltype(tag)::type;
      using R = typename decltype(rounded_tag)::type;
      auto* const values = static_cast<T*>(y);
      if (bias.type == DType::float32)
        return add_bias<R>(launch, values, static_cast<const float*>(bias.values), images,
                           channels_last, relu);
      add_bias<R>(launch, values, static_cast<const R*>(bias.values), images, channels_last, relu);
    });
  });
}

void count_differing(const Launch& launch, DType type, const void* y, const float* expected,
                     const ImageCount& images, bool channels_last, const Tolerance& tolerance,
                     std::int64_t* count) {
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_index(values_of(images), [&](auto index) {
      count_differing_kernel<decltype(index)>
          <<<grid_for(launch, values_of(images)), block_threads, 0, launch.stream>>>(
              static_cast<const T*>(y), expected, images, channels_last, tolerance,
              reinterpret_cast<unsigned long long*>(count));
    });
  });
}

}  // namespace tasuki::kernels
