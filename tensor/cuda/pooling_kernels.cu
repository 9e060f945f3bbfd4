// One thread per element of the result. Backward passes gather, too: an element of dx adds up the
// windows that contain it, always in the same order.
#include "tensor/cuda/pooling_kernels.hpp"

#include <limits>

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

// The coordinates of an element; n and c together if that is enough.
struct Place {
  std::int64_t n, c;
  int row, column;
};

__device__ Place place_of(std::int64_t i, std::int64_t channels, std::int64_t height,
                          std::int64_t width, bool channels_last) {
  Place place;
  if (channels_last) {
    place.c = i % channels;
    i /= channels;
  }
  place.column = static_cast<int>(i % width);
  i /= width;
  place.row = static_cast<int>(i % height);
  i /= height;
  if (!channels_last) {
    place.c = i % channels;
    i /= channels;
  }
  place.n = i;
  return place;
}

// Where the image of (n, c) begins, and the step from pixel to pixel.
struct Image {
  std::int64_t begin, step;
};

__device__ Image image_of(const Place& place, std::int64_t channels, std::int64_t pixels,
                          bool channels_last) {
  if (channels_last) return {place.n * pixels * channels + place.c, channels};
  return {(place.n * channels + place.c) * pixels, 1};
}

__device__ int clamp_low(int value) {
  return value < 0 ? 0 : value;
}

// Windows [begin, end) along one axis that contain element `at`.
struct Range {
  int begin, end;
};

__device__ Range windows_with(int at, int kernel, int stride, int pad, std::int64_t count) {
  const int shifted = at + pad;
  const int begin = shifted < kernel ? 0 : (shifted - kernel) / stride + 1;
  const int last = shifted / stride;
  return {begin, last < count ? last + 1 : static_cast<int>(count)};
}

template <class T>
__global__ void max_pool_kernel(T* y, const T* x, std::uint16_t* places, std::int64_t count,
                                PoolingSize s) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const Place place = place_of(i, s.channels, s.out_height, s.out_width, s.channels_last);
    const Image image = image_of(place, s.channels, s.height * s.width, s.channels_last);
    const int top = place.row * s.stride_h - s.pad_h, left = place.column * s.stride_w - s.pad_w;
    float largest = -std::numeric_limits<float>::infinity();
    int found = clamp_low(-top) * s.kernel_w + clamp_low(-left);  // the first that is in the image
    for (int a = clamp_low(-top); a < s.kernel_h && top + a < s.height; ++a)
      for (int b = clamp_low(-left); b < s.kernel_w && left + b < s.width; ++b) {
        const float value =
            convert<float>(x[image.begin + ((top + a) * s.width + left + b) * image.step]);
        if (value > largest || (value != value && largest == largest)) {
          largest = value;
          found = a * s.kernel_w + b;
        }
      }
    y[i] = convert<T>(largest);
    if (places != nullptr) places[i] = static_cast<std::uint16_t>(found);
  }
}

template <class T>
__global__ void max_pool_backward_kernel(T* dx, const T* dy, const std::uint16_t* places,
                                         std::int64_t count, PoolingSize s) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const Place place = place_of(i, s.channels, s.height, s.width, s.channels_last);
    const Image image = image_of(place, s.channels, s.out_height * s.out_width, s.channels_last);
    const Range rows = windows_with(place.row, s.kernel_h, s.stride_h, s.pad_h, s.out_height);
    const Range columns = windows_with(place.column, s.kernel_w, s.stride_w, s.pad_w, s.out_width);
    float sum = 0;
    for (int a = rows.begin; a < rows.end; ++a)
      for (int b = columns.begin; b < columns.end; ++b) {
        const std::int64_t from = image.begin + (a * s.out_width + b) * image.step;
        const int within = (place.row + s.pad_h - a * s.stride_h) * s.kernel_w + place.column +
                           s.pad_w - b * s.stride_w;
        if (places[from] == within) sum += convert<float>(dy[from]);
      }
    dx[i] = convert<T>(sum);
  }
}

template <class T>
__global__ void average_pool_kernel(T* y, const T* x, std::int64_t count, PoolingSize s) {
  const float share = 1.0f / static_cast<float>(s.kernel_h * s.kernel_w);
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const Place place = place_of(i, s.channels, s.out_height, s.out_width, s.channels_last);
    const Image image = image_of(place, s.channels, s.height * s.width, s.channels_last);
    const int top = place.row * s.stride_h - s.pad_h, left = place.column * s.stride_w - s.pad_w;
    float sum = 0;
    for (int a = clamp_low(-top); a < s.kernel_h && top + a < s.height; ++a)
      for (int b = clamp_low(-left); b < s.kernel_w && left + b < s.width; ++b)
        sum += convert<float>(x[image.begin + ((top + a) * s.width + left + b) * image.step]);
    y[i] = convert<T>(sum * share);
  }
}

template <class T>
__global__ void average_pool_backward_kernel(T* dx, const T* dy, std::int64_t count,
                                             PoolingSize s) {
  const float share = 1.0f / static_cast<float>(s.kernel_h * s.kernel_w);
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    const Place place = place_of(i, s.channels, s.height, s.width, s.channels_last);
    const Image image = image_of(place, s.channels, s.out_height * s.out_width, s.channels_last);
    const Range rows = windows_with(place.row, s.kernel_h, s.stride_h, s.pad_h, s.out_height);
    const Range columns = windows_with(place.column, s.kernel_w, s.stride_w, s.pad_w, s.out_width);
    float sum = 0;
    for (int a = rows.begin; a < rows.end; ++a)
      for (int b = columns.begin; b < columns.end; ++b)
        sum += convert<float>(dy[image.begin + (a * s.out_width + b) * image.step]);
    dx[i] = convert<T>(sum * share);
  }
}

std::int64_t count_in(const PoolingSize& s) {
  return s.items * s.channels * s.height * s.width;
}
std::int64_t count_out(const PoolingSize& s) {
  return s.items * s.channels * s.out_height * s.out_width;
}

}  // namespace

void max_pool(const Launch& launch, DType type, void* y, const void* x, std::uint16_t* places,
              const PoolingSize& size) {
  const std::int64_t count = count_out(size);
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    max_pool_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
        static_cast<T*>(y), static_cast<const T*>(x), places, count, size);
  });
}

void max_pool_backward(const Launch& launch, DType type, void* dx, const void* dy,
                       const std::uint16_t* places, const PoolingSize& size) {
  const std::int64_t count = count_in(size);
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    max_pool_backward_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
        static_cast<T*>(dx), static_cast<const T*>(dy), places, count, size);
  });
}

void average_pool(const Launch& launch, DType type, void* y, const void* x,
                  const PoolingSize& size) {
  const std::int64_t count = count_out(size);
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    average_pool_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
        static_cast<T*>(y), static_cast<const T*>(x), count, size);
  });
}

void average_pool_backward(const Launch& launch, DType type, void* dx, const void* dy,
                           const PoolingSize& size) {
  const std::int64_t count = count_in(size);
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    average_pool_backward_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
        static_cast<T*>(dx), static_cast<const T*>(dy), count, size);
  });
}

}  // namespace tasuki::kernels
