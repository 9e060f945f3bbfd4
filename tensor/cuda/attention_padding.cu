// What cuDNN's attention needs of ours: lengths in its form, and zeros in the rows of padding.
#include <cmath>

#include "tensor/cuda/attention_heads.cuh"

namespace tasuki::kernels {
namespace {

__global__ void lengths_kernel(AttentionArrays a, std::int32_t* queries, std::int32_t* keys) {
  for (std::int64_t item = thread_index(); item < a.items; item += thread_count()) {
    const OneHead one = head_of(a, item * a.heads);
    // cuDNN takes items without any only from 9.25 on. One row is cleared as padding afterwards.
    queries[item] = static_cast<std::int32_t>(one.queries > 0 ? one.queries : 1);
    keys[item] = static_cast<std::int32_t>(one.keys > 0 ? one.keys : 1);
  }
}

// Blocks: x for rows, y for items.
__global__ void clear_padding_kernel(AttentionArrays a, HeadArray array, bool of_queries) {
  using T = std::uint16_t;
  const std::int64_t item = blockIdx.y, packs = a.heads * a.head_width / Pack<T>::width;
  const OneHead one = head_of(a, item * a.heads);
  const std::int64_t end = of_queries ? one.queries : one.keys;
  for (std::int64_t row = end + blockIdx.x; row < array.rows; row += gridDim.x)
    for (std::int64_t i = threadIdx.x; i < packs; i += blockDim.x)
      store_pack(row_of<T>(a, array, one, row), i, Pack<T>{});
}

__global__ void split_statistics_kernel(const float* logarithms, float2* to, std::int64_t count) {
  for (std::int64_t i = thread_index(); i < count; i += thread_count())
    to[i] = float2{logarithms[i], 1};
}

}  // namespace

void attention_lengths(const Launch& launch, const AttentionArrays& arrays, std::int32_t* queries,
                       std::int32_t* keys) {
  lengths_kernel<<<grid_for(launch, arrays.items), block_threads, 0, launch.stream>>>(
      arrays, queries, keys);
}

void clear_padding(const Launch& launch, const AttentionArrays& arrays, const HeadArray& array,
                   bool of_queries) {
  constexpr int threads = 128;
  const dim3 grid(static_cast<unsigned>(8 * launch.multiprocessors / arrays.items + 1),
                  static_cast<unsigned>(arrays.items));
  clear_padding_kernel<<<grid, threads, 0, launch.stream>>>(arrays, array, of_queries);
}

void split_statistics(const Launch& launch, const float* logarithms, float2* to,
                      std::int64_t count) {
  if (count == 0) return;
  split_statistics_kernel<<<grid_for(launch, count), block_threads, 0, launch.stream>>>(logarithms,
                                                                                        to, count);
}

}  // namespace tasuki::kernels
