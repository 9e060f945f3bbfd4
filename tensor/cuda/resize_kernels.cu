#include "tensor/cuda/kernel_support.cuh"
#include "tensor/cuda/random_blocks.cuh"
#include "tensor/cuda/resize_kernels.hpp"

namespace tasuki::kernels {
namespace {

template <class Index, class T>
__global__ void resize_kernel(const T* x, T* y, std::int64_t planes, ResizeAxis rows,
                              ResizeAxis columns) {
  for (std::int64_t i = thread_index(); i < planes * rows.out * columns.out; i += thread_count()) {
    const auto [line_of_all, column] =
        divide(static_cast<Index>(i), static_cast<Index>(columns.out));
    const auto [image, row] = divide(line_of_all, static_cast<Index>(rows.out));
    const ResizeAxis::Source across = columns.source(column), down = rows.source(row);
    const T* const plane = x + image * rows.in * columns.in;
    const auto line = [&](std::int64_t from) {
      const float first = convert<float>(plane[from * columns.in + across.first]);
      return first +
             across.part * (convert<float>(plane[from * columns.in + across.second]) - first);
    };
    const float first = line(down.first);
    y[i] = convert<T>(first + down.part * (line(down.second) - first));
  }
}

// The part of pixel `in` in pixel `out` of a resized axis.
template <class Index>
__device__ float part_of(const ResizeAxis& axis, std::int64_t in, Index out) {
  const ResizeAxis::Source from = axis.source(out);
  return (from.first == in ? 1 - from.part : 0.0f) + (from.second == in ? from.part : 0.0f);
}

template <class Index>
struct PixelRange {
  Index begin, end;
};

// The first pixel of the result that comes from `in` or later ones: sources do not decrease.
template <class Index>
__device__ Index first_from(const ResizeAxis& axis, std::int64_t in) {
  Index low = 0, high = static_cast<Index>(axis.out);
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (axis.source(middle).second < in)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// Those that pixel `in` may be a part of.
template <class Index>
__device__ PixelRange<Index> results_of(const ResizeAxis& axis, std::int64_t in) {
  return {first_from<Index>(axis, in), first_from<Index>(axis, in + 2)};
}

template <class Index, class T>
__global__ void resize_backward_kernel(const T* dy, T* dx, std::int64_t planes, ResizeAxis rows,
                                       ResizeAxis columns) {
  for (std::int64_t i = thread_index(); i < planes * rows.in * columns.in; i += thread_count()) {
    const auto [line_of_all, column] =
        divide(static_cast<Index>(i), static_cast<Index>(columns.in));
    const auto [image, row] = divide(line_of_all, static_cast<Index>(rows.in));
    const T* const plane = dy + image * rows.out * columns.out;
    const PixelRange<Index> across = results_of<Index>(columns, column);
    const PixelRange<Index> down = results_of<Index>(rows, row);
    float sum = 0;
    for (Index a = down.begin; a < down.end; ++a) {
      float line = 0;
      for (Index b = across.begin; b < across.end; ++b)
        line += part_of(columns, column, b) * convert<float>(plane[a * columns.out + b]);
      sum += part_of(rows, row, a) * line;
    }
    dx[i] = convert<T>(sum);
  }
}

struct Noise {
  bool is_normal;
  float scale;

  __device__ float uniform(std::uint32_t word) const {
    return scale * (static_cast<float>(word >> 8) * 0x1p-23f - 1.0f);
  }
  __device__ void operator()(const RandomWords& words, float (&values)[4]) const {
    for (std::size_t k = 0; k < 4; k += 2) {
      const std::uint32_t a = words[k], b = words[k + 1];
      if (is_normal) {
        const float u = (static_cast<float>(a >> 8) + 0.5f) * 0x1p-24f;
        const float t = static_cast<float>(b >> 8) * 0x1p-24f - 0.5f;
        const float radius = scale * sqrtf(-2.0f * logf(u));
        const float angle = 6.28318531f * t;
        values[k] += radius * cosf(angle);
        values[k + 1] += radius * sinf(angle);
      } else {
        values[k] += uniform(a);
        values[k + 1] += uniform(b);
      }
    }
  }
};

// For with_index(): the results of the kernels above and the products of ResizeAxis::source.
std::int64_t largest_number(const ResizePlanes& planes) {
  const ResizeAxis &rows = planes.rows, &columns = planes.columns;
  return std::max({planes.planes * rows.out * columns.out, planes.planes * rows.in * columns.in,
                   rows.in * rows.out, columns.in * columns.out});
}

}  // namespace

void resize(const Launch& launch, const ResizePlanes& planes, const void* x, void* y) {
  const std::int64_t count = planes.planes * planes.rows.out * planes.columns.out;
  if (count == 0) return;
  with_float_type(planes.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_index(largest_number(planes), [&](auto index) {
      resize_kernel<decltype(index)><<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          static_cast<const T*>(x), static_cast<T*>(y), planes.planes, planes.rows, planes.columns);
    });
  });
}

void resize_backward(const Launch& launch, const ResizePlanes& planes, const void* dy, void* dx) {
  const std::int64_t count = planes.planes * planes.rows.in * planes.columns.in;
  if (count == 0) return;
  with_float_type(planes.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_index(largest_number(planes), [&](auto index) {
      resize_backward_kernel<decltype(index)>
          <<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
              static_cast<const T*>(dy), static_cast<T*>(dx), planes.planes, planes.rows,
              planes.columns);
    });
  });
}

void add_noise(const Launch& launch, DType type, const void* x, void* y, std::int64_t items,
               const ExampleOrder& order, bool is_normal, float scale, const std::int64_t* seed,
               const std::int64_t* ids) {
  change_blocks(launch, type, Noise{is_normal, scale}, x, y, items, order, seed, ids);
}

}  // namespace tasuki::kernels
