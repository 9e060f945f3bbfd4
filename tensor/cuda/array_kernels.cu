#include "tensor/cuda/array_kernels.hpp"

#include "tensor/cuda/strided.cuh"

namespace tasuki::kernels {
namespace {

template <class T, class Index>
__global__ void from_strided_kernel(const __grid_constant__ DeviceLoop<1, Index> loop, T* to,
                                    const T* from, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    Index at[1];
    loop.find(static_cast<Index>(i), at);
    to[i] = from[at[0]];
  }
}

template <class T, class Index>
__global__ void to_strided_kernel(const __grid_constant__ DeviceLoop<1, Index> loop, T* to,
                                  const T* from, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count()) {
    Index at[1];
    loop.find(static_cast<Index>(i), at);
    to[at[0]] = from[i];
  }
}

// visitor(Type<T>{}) for an unsigned integer of that size.
template <class Visitor>
void with_element(std::size_t bytes, Visitor&& visitor) {
  switch (bytes) {
    case 1:
      return visitor(Type<std::uint8_t>{});
    case 2:
      return visitor(Type<std::uint16_t>{});
    case 4:
      return visitor(Type<std::uint32_t>{});
    default:
      return visitor(Type<std::uint64_t>{});
  }
}

struct Sum {
  static __device__ float start(float) { return 0; }
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  static __device__ float start(float first) { return first; }
  __device__ float operator()(float a, float b) const { return a > b || a != a ? a : b; }
};

struct ReducedAxis {
  std::int64_t length, inner, piece, pieces;
};

// A thread per result: neighbours read neighbours.
template <class To, class From, class Op>
__global__ void reduce_columns_kernel(To* y, const From* x, ReducedAxis axis, std::int64_t results,
                                      float factor) {
  for (std::int64_t i = thread_index(); i < results; i += thread_count()) {
    const std::int64_t column = i % axis.inner, rest = i / axis.inner;
    const std::int64_t begin = rest % axis.pieces * axis.piece;
    const std::int64_t end = begin + axis.piece < axis.length ? begin + axis.piece : axis.length;
    const From* const from = x + rest / axis.pieces * axis.length * axis.inner + column;
    float result = Op::start(convert<float>(from[begin * axis.inner]));
    for (std::int64_t r = begin; r < end; ++r)
      result = Op()(result, convert<float>(from[r * axis.inner]));
    y[i] = convert<To>(factor * result);
  }
}

// A warp per result, of elements that lie side by side.
template <class To, class From, class Op>
__global__ void reduce_rows_kernel(To* y, const From* x, ReducedAxis axis, std::int64_t results,
                                   float factor) {
  const int lane = threadIdx.x % 32;
  for (std::int64_t i = thread_index() / 32; i < results; i += thread_count() / 32) {
    const std::int64_t begin = i % axis.pieces * axis.piece;
    const std::int64_t end = begin + axis.piece < axis.length ? begin + axis.piece : axis.length;
    const From* const from = x + i / axis.pieces * axis.length;
    float result = Op::start(convert<float>(from[begin]));
    for (std::int64_t r = begin + lane; r < end; r += 32)
      result = Op()(result, convert<float>(from[r]));
    result = warp_reduce(result, Op());
    if (lane == 0) y[i] = convert<To>(factor * result);
  }
}

template <class Op>
void reduce_by(const Launch& launch, DType from, const void* x, DType to, void* y,
               const ReducedAxis& axis, std::int64_t results, float factor) {
  with_float_type(from, [&](auto from_tag) {
    with_float_type(to, [&](auto to_tag) {
      using From = typename decltype(from_tag)::type;
      using To = typename decltype(to_tag)::type;
      if constexpr (std::is_same_v<From, To> || std::is_same_v<From, float> ||
                    std::is_same_v<To, float>) {
        if (axis.inner == 1)
          reduce_rows_kernel<To, From, Op>
              <<<grid_for(launch, results * 32), block_threads, 0, launch.stream>>>(
                  static_cast<To*>(y), static_cast<const From*>(x), axis, results, factor);
        else
          reduce_columns_kernel<To, From, Op>
              <<<grid_for(launch, results), block_threads, 0, launch.stream>>>(
                  static_cast<To*>(y), static_cast<const From*>(x), axis, results, factor);
      }
    });
  });
}

}  // namespace

void copy_from_strided(const Launch& launch, std::size_t element_bytes, const StridedLoop<1>& loop,
                       const void* from, void* to, std::int64_t count) {
  if (count == 0) return;
  with_element(element_bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_device_loop(loop, [&](const auto& walk) {
      from_strided_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          walk, static_cast<T*>(to), static_cast<const T*>(from), count);
    });
  });
}

void copy_to_strided(const Launch& launch, std::size_t element_bytes, const StridedLoop<1>& loop,
                     const void* from, void* to, std::int64_t count) {
  if (count == 0) return;
  with_element(element_bytes, [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_device_loop(loop, [&](const auto& walk) {
      to_strided_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(
          walk, static_cast<T*>(to), static_cast<const T*>(from), count);
    });
  });
}

void reduce_axis(const Launch& launch, bool is_sum, DType from, const void* x, DType to, void* y,
                 std::int64_t outer, std::int64_t length, std::int64_t inner, std::int64_t piece,
                 float factor) {
  const std::int64_t pieces = (length + piece - 1) / piece;
  const ReducedAxis axis{length, inner, piece, pieces};
  if (is_sum)
    reduce_by<Sum>(launch, from, x, to, y, axis, outer * pieces * inner, factor);
  else
    reduce_by<Largest>(launch, from, x, to, y, axis, outer * pieces * inner, factor);
}

}  // namespace tasuki::kernels
