#include "tensor/cuda/image_transform_kernels.hpp"

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {

// A block makes an image. It reads the stored bytes, which stay in its cache, once for each value
// that it needs (the channels' means, the image's mean and deviation) and once to write; nothing in
// between is stored. Pixels are rounded as on a CPU; sums are added up in another order.
namespace {

constexpr float white = 255;

// One image through its crop.
struct View {
  const std::uint8_t* pixels;
  ImageDraw draw;
  int height, width;

  // The pixel at place i of channel c; black in the padding.
  __device__ float pixel(int c, int i) const {
    const int row = i / width, column = i % width;
    const int y = row + static_cast<int>(draw.down);
    const int x = (draw.mirrored ? width - 1 - column : column) + static_cast<int>(draw.right);
    if (y < 0 || y >= height || x < 0 || x >= width) return 0;
    return static_cast<float>(pixels[(c * height + y) * width + x]);
  }
  // With brightness and contrast, clipped.
  __device__ float adjusted(int c, int i, float offset) const {
    const float value = __fadd_rn(__fmul_rn(pixel(c, i), draw.contrast), offset);
    return value < 0 ? 0.0f : value > white ? white : value;
  }
};

// The sum over all threads, returned to all of them.
template <class T>
__device__ T sum_for_all(T value) {
  __shared__ T parts[32];
  __shared__ T sum;
  value = block_sum(value, parts);
  if (threadIdx.x == 0) sum = value;
  __syncthreads();
  const T result = sum;
  __syncthreads();  // the next sum is written to the same place
  return result;
}

// The offsets added to each channel's pixels, computed by all threads.
__device__ void find_offsets(const View& view, int channels, float* offsets) {
  const int area = view.height * view.width;
  for (int c = 0; c < channels; ++c) {
    float mean = 0;
    if (view.draw.contrast != 1) {
      unsigned long long sum = 0;
      for (int i = threadIdx.x; i < area; i += blockDim.x)
        sum += static_cast<unsigned long long>(view.pixel(c, i));
      mean = __fdiv_rn(static_cast<float>(sum_for_all(sum)), static_cast<float>(area));
    }
    if (threadIdx.x == 0)
      offsets[c] =
          __fadd_rn(__fsub_rn(mean, __fmul_rn(view.draw.contrast, mean)), view.draw.brightness);
  }
  __syncthreads();
}

// visit(place in the image, adjusted pixel) for this thread's share of an image.
template <class Visit>
__device__ void for_each_pixel(const View& view, int channels, const float* offsets,
                               Visit&& visit) {
  const int area = view.height * view.width;
  for (int c = 0; c < channels; ++c)
    for (int i = threadIdx.x; i < area; i += blockDim.x)
      visit(c * area + i, view.adjusted(c, i, offsets[c]));
}

// Standardisation: (value - shift) * factor.
struct Scale {
  float shift, factor;
};

__device__ Scale standardization(const View& view, int channels, const float* offsets) {
  const auto n = static_cast<float>(channels * view.height * view.width);
  double sum = 0;
  for_each_pixel(view, channels, offsets, [&](int, float value) { sum += value; });
  const float mean = __fdiv_rn(static_cast<float>(sum_for_all(sum)), n);
  double squares = 0;
  for_each_pixel(view, channels, offsets, [&](int, float value) {
    const float apart = value - mean;
    squares += static_cast<double>(apart * apart);
  });
  const float deviation = sqrtf(__fdiv_rn(static_cast<float>(sum_for_all(squares)), n));
  return {mean, __fdiv_rn(1, fmaxf(deviation, __fdiv_rn(1, sqrtf(n))))};
}

template <class T>
__global__ void transform_images_kernel(T* destination, ImageSource source, ImageChoice choice,
                                        SeededImageTransform transform, ImageStreams streams) {
  __shared__ float offsets[most_image_channels];
  alignas(ImageDraw) __shared__ unsigned char shared_draw[sizeof(ImageDraw)];
  ImageDraw& draw = *reinterpret_cast<ImageDraw*>(shared_draw);
  const std::int64_t count = std::int64_t{source.channels} * source.height * source.width;
  for (std::int64_t item = blockIdx.x; item < choice.items; item += gridDim.x) {
    T* const to = destination + item * count;
    const std::int64_t index = choice.indices[item];
    if (index < 0 || index >= source.images) {
      for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = convert<T>(0.0f);
      continue;
    }
    if (threadIdx.x == 0) draw = draw_image(transform, streams, *choice.epoch, choice.ids[item]);
    __syncthreads();
    const View view{source.pixels + index * count, draw, source.height, source.width};
    find_offsets(view, source.channels, offsets);
    if (transform.settings.standardize) {
      const Scale scale = standardization(view, source.channels, offsets);
      for_each_pixel(view, source.channels, offsets, [&](int i, float value) {
        to[i] = convert<T>(__fmul_rn(__fsub_rn(value, scale.shift), scale.factor));
      });
    } else {
      for_each_pixel(view, source.channels, offsets,
                     [&](int i, float value) { to[i] = convert<T>(__fdiv_rn(value, white)); });
    }
    __syncthreads();  // draw and offsets belong to the next image from here on
  }
}

}  // namespace

void transform_images(const Launch& launch, DType type, void* destination,
                      const ImageSource& source, const ImageChoice& choice,
                      const SeededImageTransform& transform, const ImageStreams& streams) {
  if (choice.items == 0) return;
  const auto grid = static_cast<unsigned>(
      std::min<std::int64_t>(choice.items, std::int64_t{launch.multiprocessors} * 8));
  with_float_type(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    transform_images_kernel<<<grid, block_threads, 0, launch.stream>>>(
        static_cast<T*>(destination), source, choice, transform, streams);
  });
}

}  // namespace tasuki::kernels
