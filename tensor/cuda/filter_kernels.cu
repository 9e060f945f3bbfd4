#include "tasuki/tensor/cuda/filter_kernels.hpp"

#include "tasuki/tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

// Where element i of an O x I x P filter lies when it is O x P x I.
__device__ std::int64_t channels_last_index(std::int64_t i, std::int64_t inputs,
                                            std::int64_t places) {
  const std::int64_t place = i % places, rest = i / places;
  const std::int64_t input = rest % inputs, output = rest / inputs;
  return (output * places + place) * inputs + input;
}
// The inverse is the same with the two exchanged.

template <class T>
__global__ void convert_filter_kernel(T* to, const float* from, std::int64_t count,
                                      std::int64_t inputs, std::int64_t places,
                                      bool channels_last) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    to[i] = convert<T>(from[channels_last ? channels_last_index(i, places, inputs) : i]);
}

template <class T>
__global__ void convert_filter_gradient_kernel(float* to, const T* from, std::int64_t count,
                                               std::int64_t inputs, std::int64_t places,
                                               bool channels_last, bool accumulate) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const float value =
        convert<float>(from[channels_last ? channels_last_index(i, inputs, places) : i]);
    to[i] = accumulate ? to[i] + value : value;
  }
}

template <class T>
__global__ void add_bias_kernel(T* y, const float* bias, std::int64_t count, std::int64_t channels,
                                std::int64_t pixels, bool channels_last) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const std::int64_t channel = channels_last ? i % channels : i / pixels % channels;
    y[i] = convert<T>(convert<float>(y[i]) + bias[channel]);
  }
}

// Sixteen bytes of one pixel's channels at a time; channels are a multiple of that.
template <class T>
__global__ void add_bias_packed_kernel(T* y, const float* bias, std::int64_t packs,
                                       std::int64_t packs_per_pixel) {
  for (std::int64_t i = thread_index(); i < packs; i += thread_count()) {
    const float* const from = bias + i % packs_per_pixel * Pack<T>::width;
    Pack<T> pack = load_pack(y, i);
    for (int j = 0; j < Pack<T>::width; ++j)
      pack.values[j] = convert<T>(convert<float>(pack.values[j]) + from[j]);
    store_pack(y, i, pack);
  }
}

}  // namespace

void convert_filter(const Launch& launch, DType type, void* to, const float* from,
                    const FilterSize& size, bool channels_last) {
  const std::int64_t count = size.outputs * size.inputs * size.places;
  if (count == 0) return;
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    convert_filter_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
        static_cast<T*>(to), from, count, size.inputs, size.places, channels_last);
  });
}

void convert_filter_gradient(const Launch& launch, float* to, DType type, const void* from,
                             const FilterSize& size, bool channels_last, bool accumulate) {
  const std::int64_t count = size.outputs * size.inputs * size.places;
  if (count == 0) return;
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    convert_filter_gradient_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
        to, static_cast<const T*>(from), count, size.inputs, size.places, channels_last,
        accumulate);
  });
}

void add_bias(const Launch& launch, DType type, void* y, const float* bias, std::int64_t items,
              std::int64_t channels, std::int64_t pixels, bool channels_last) {
  const std::int64_t count = items * channels * pixels;
  if (count == 0) return;
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* const values = static_cast<T*>(y);
    if (channels_last && channels % Pack<T>::width == 0 && are_aligned(y)) {
      const std::int64_t packs = count / Pack<T>::width;
      add_bias_packed_kernel<<<grid_for(launch, packs), block_threads, 0, launch.stream>>>(
          values, bias, packs, channels / Pack<T>::width);
    } else {
      add_bias_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          values, bias, count, channels, pixels, channels_last);
    }
  });
}

}  // namespace tasuki::kernels
