#include "tensor/cuda/embedding_kernels.hpp"

#include <cmath>

#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {
namespace {

template <class Index, class T, class Id>
__global__ void embed_kernel(const T* w, const Id* ids, Ids all, T* y, std::int64_t rows,
                             std::int64_t columns) {
  for (std::int64_t i = thread_index(); i < all.count * columns; i += thread_count()) {
    const auto [row, column] = divide(static_cast<Index>(i), static_cast<Index>(columns));
    const std::int64_t id = ids[row];
    if (all.has_ignore && id == all.ignore)
      y[i] = convert<T>(0.0f);
    else if (id < 0 || id >= rows)
      y[i] = convert<T>(NAN);
    else
      y[i] = w[id * columns + column];
  }
}

}  // namespace

void embed(const Launch& launch, DType type, const void* w, const Ids& ids, void* y,
           std::int64_t rows, std::int64_t columns) {
  with_float_type(type, [&](auto t) {
    using T = typename decltype(t)::type;
    with_ids(ids, [&](const auto* numbers) {
      with_index(ids.count * columns, [&](auto index) {
        embed_kernel<decltype(index)>
            <<<grid_for(launch, ids.count * columns), block_threads, 0, launch.stream>>>(
                static_cast<const T*>(w), numbers, ids, static_cast<T*>(y), rows, columns);
      });
    });
  });
}

}  // namespace tasuki::kernels
