#include "tasuki/tensor/cuda/embedding_kernels.hpp"

#include <cmath>

#include "tasuki/tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

template <class T, class Id>
__global__ void embed_kernel(const T* w, const Id* ids, Ids all, T* y, std::int64_t rows,
                             std::int64_t columns) {
  for (std::int64_t i = thread_index(); i < all.count * columns; i += thread_count()) {
    const std::int64_t id = ids[i / columns];
    if (all.has_ignore && id == all.ignore)
      y[i] = convert<T>(0.0f);
    else if (id < 0 || id >= rows)
      y[i] = convert<T>(NAN);
    else
      y[i] = w[id * columns + i % columns];
  }
}

struct Or {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return a | b; }
};

// Bit j: whether ids[begin + j] is `id`; the same in all lanes.
template <class Id>
__device__ unsigned equal_ids(const Id* ids, std::int64_t begin, std::int64_t end, Id id) {
  const int lane = threadIdx.x % 32;
  const bool is_equal = begin + lane < end && ids[begin + lane] == id;
  return warp_reduce(is_equal ? 1u << lane : 0u, Or());
}

// A warp for each place of an id and each 32 columns.
template <class T, class Id>
__global__ void embed_backward_kernel(const Id* ids, Ids all, const T* dy, float* dw,
                                      std::int64_t rows, std::int64_t columns) {
  const int lane = threadIdx.x % 32;
  const std::int64_t parts = (columns + 31) / 32, warps = thread_count() / 32;
  for (std::int64_t task = thread_index() / 32; task < all.count * parts; task += warps) {
    const std::int64_t place = task / parts, column = task % parts * 32 + lane;
    const Id id = ids[place];
    if (id < 0 || id >= rows || (all.has_ignore && id == all.ignore)) continue;
    bool is_first = true;
    for (std::int64_t begin = 0; is_first && begin < place; begin += 32)
      is_first = equal_ids(ids, begin, place, id) == 0;
    if (!is_first) continue;
    float sum = 0;
    for (std::int64_t begin = place; begin < all.count; begin += 32) {
      const unsigned found = equal_ids(ids, begin, all.count, id);
      for (int j = 0; found >> j != 0; ++j) {
        if ((found >> j & 1u) != 0 && column < columns)
          sum += convert<float>(dy[(begin + j) * columns + column]);
        if (j == 31) break;
      }
    }
    if (column < columns) dw[id * columns + column] += sum;
  }
}

// visitor(ids) with a pointer of the ids' type.
template <class Visitor>
void with_ids(const Ids& ids, Visitor&& visitor) {
  if (ids.type == DType::int32)
    visitor(static_cast<const std::int32_t*>(ids.ids));
  else
    visitor(static_cast<const std::int64_t*>(ids.ids));
}

}  // namespace

void embed(const Launch& launch, DType type, const void* w, const Ids& ids, void* y,
           std::int64_t rows, std::int64_t columns) {
  with_float_type(type, [&](auto t) {
    using T = typename decltype(t)::type;
    with_ids(ids, [&](const auto* numbers) {
      embed_kernel<<<grid_for(launch, ids.count * columns), block_threads, 0, launch.stream>>>(
          static_cast<const T*>(w), numbers, ids, static_cast<T*>(y), rows, columns);
    });
  });
}

void embed_backward(const Launch& launch, DType type, const Ids& ids, const void* dy, float* dw,
                    std::int64_t rows, std::int64_t columns) {
  with_float_type(type, [&](auto t) {
    using T = typename decltype(t)::type;
    with_ids(ids, [&](const auto* numbers) {
      embed_backward_kernel<<<grid_for(launch, ids.count * ((columns + 31) / 32) * 32),
                              block_threads, 0, launch.stream>>>(
          numbers, ids, static_cast<const T*>(dy), dw, rows, columns);
    });
  });
}

}  // namespace tasuki::kernels
