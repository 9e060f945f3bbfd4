#include <cmath>

#include "tensor/cuda/attention_heads.cuh"

namespace tasuki::kernels {
namespace {

constexpr int tile = 32;  // rows: one for each lane
constexpr int warps = 8;  // of a block, and rows that it computes at a time
constexpr int threads = 32 * warps;

// Rows begin .. begin + count of an array, zeros behind `end`. A row has one float more than its
// width, so that lanes that read one column of 32 rows use different banks.
template <int width, class T>
__device__ void load_rows(float (*to)[width + 1], const AttentionArrays& a, const HeadArray& array,
                          const OneHead& one, std::int64_t begin, std::int64_t end, int count) {
  for (int i = threadIdx.x; i < count * width; i += threads) {
    const int row = i / width, column = i % width;
    const bool is_there = begin + row < end && column < a.head_width;
    to[row][column] =
        is_there ? convert<float>(row_of<T>(a, array, one, begin + row)[column]) : 0.0f;
  }
}

template <int width>
__device__ float product(const float* a, const float* b) {
  float sum = 0;
  for (int c = 0; c < width; ++c) sum += a[c] * b[c];
  return sum;
}

// sums[c] += sum over the tile's rows of the weight that their lane has, times the row.
template <int width>
__device__ void add_rows(float* sums, float weight, const float (*rows)[width + 1]) {
  const int lane = threadIdx.x % 32;
  for (int j = 0; j < tile; ++j) {
    const float factor = __shfl_sync(~0u, weight, j);
    for (int c = 0; c < width / 32; ++c) sums[c] += factor * rows[j][lane + 32 * c];
  }
}

template <int width, class T>
__device__ void store_row(const AttentionArrays& a, const HeadArray& array, const OneHead& one,
                          std::int64_t row, const float* sums, float factor) {
  const int lane = threadIdx.x % 32;
  T* const to = row_of<T>(a, array, one, row);
  for (int c = 0; c < width / 32; ++c)
    if (lane + 32 * c < a.head_width) to[lane + 32 * c] = convert<T>(sums[c] * factor);
}

// The softmax's value for a score.
__device__ float weight_of(float score, float2 statistics) {
  return expf(score - statistics.x) / statistics.y;
}

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Blocks: x for rows, y for heads of items.
template <int width, class T>
__global__ void __launch_bounds__(threads) attention_kernel(AttentionArrays a) {
  __shared__ float own[warps][width + 1], keys[tile][width + 1];
  const OneHead one = head_of(a, blockIdx.y);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * warps, i = first + warp;
  load_rows<width, T>(own, a, a.q, one, first, one.queries, warps);
  // All warps of a block take part in each tile.
  const std::int64_t end =
      first >= one.queries ? 0 : (a.causal && first + warps < one.keys ? first + warps : one.keys);
  float sums[width / 32] = {}, top = -INFINITY, total = 0;
  for (std::int64_t begin = 0; begin < end; begin += tile) {
    __syncthreads();
    load_rows<width, T>(keys, a, a.k, one, begin, one.keys, tile);
    __syncthreads();
    const std::int64_t j = begin + lane;
    const bool is_seen = i < one.queries && j < one.keys && (!a.causal || j <= i);
    const float score = is_seen ? a.scale * product<width>(own[warp], keys[lane]) : -INFINITY;
    const float new_top = fmaxf(top, warp_reduce(score, Larger()));
    const float weight = is_seen ? expf(score - new_top) : 0.0f;
    const float factor = top == -INFINITY ? 0.0f : expf(top - new_top);
    total = total * factor + warp_reduce(weight, Plus());
    top = new_top;
    for (float& sum : sums) sum *= factor;
    __syncthreads();
    load_rows<width, T>(keys, a, a.v, one, begin, one.keys, tile);
    __syncthreads();
    add_rows<width>(sums, weight, keys);
  }
  if (i >= a.q.rows) return;
  const bool is_there = i < one.queries;
  store_row<width, T>(a, a.y, one, i, sums, is_there ? 1 / total : 0.0f);
  if (lane == 0) a.statistics[place_of(a, one, i)] = is_there ? float2{top, total} : float2{};
}

// The sum over columns of y and dy of this row, in all lanes.
template <class T>
__device__ float delta_of(const AttentionArrays& a, const OneHead& one, std::int64_t row) {
  float sum = 0;
  for (std::int64_t c = threadIdx.x % 32; c < a.head_width; c += 32)
    sum += convert<float>(row_of<T>(a, a.y, one, row)[c]) *
           convert<float>(row_of<T>(a, a.dy, one, row)[c]);
  return warp_reduce(sum, Plus());
}

template <int width, class T>
__global__ void __launch_bounds__(threads)
    query_gradient_kernel(AttentionArrays a, HeadArray dq, float* products) {
  __shared__ float own[warps][width + 1], own_dy[warps][width + 1], rows[tile][width + 1];
  const OneHead one = head_of(a, blockIdx.y);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * warps, i = first + warp;
  load_rows<width, T>(own, a, a.q, one, first, one.queries, warps);
  load_rows<width, T>(own_dy, a, a.dy, one, first, one.queries, warps);
  const bool is_there = i < one.queries;
  const float delta = is_there ? delta_of<T>(a, one, i) : 0.0f;
  if (lane == 0 && i < a.q.rows) products[place_of(a, one, i)] = delta;
  const float2 statistics = is_there ? a.statistics[place_of(a, one, i)] : float2{};
  const std::int64_t end =
      first >= one.queries ? 0 : (a.causal && first + warps < one.keys ? first + warps : one.keys);
  float sums[width / 32] = {};
  for (std::int64_t begin = 0; begin < end; begin += tile) {
    __syncthreads();
    load_rows<width, T>(rows, a, a.v, one, begin, one.keys, tile);
    __syncthreads();
    const float slope = product<width>(own_dy[warp], rows[lane]) - delta;
    __syncthreads();
    load_rows<width, T>(rows, a, a.k, one, begin, one.keys, tile);
    __syncthreads();
    const std::int64_t j = begin + lane;
    const bool is_seen = is_there && j < one.keys && (!a.causal || j <= i);
    const float weight =
        is_seen ? weight_of(a.scale * product<width>(own[warp], rows[lane]), statistics) : 0.0f;
    add_rows<width>(sums, weight * slope * a.scale, rows);
  }
  if (i < a.q.rows) store_row<width, T>(a, dq, one, i, sums, 1);
}

template <int width, class T>
__global__ void __launch_bounds__(threads)
    key_gradient_kernel(AttentionArrays a, HeadArray dk, HeadArray dv, const float* products) {
  __shared__ float own[warps][width + 1], own_v[warps][width + 1], rows[tile][width + 1];
  const OneHead one = head_of(a, blockIdx.y);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * warps, j = first + warp;
  load_rows<width, T>(own, a, a.k, one, first, one.keys, warps);
  load_rows<width, T>(own_v, a, a.v, one, first, one.keys, warps);
  const bool is_there = j < one.keys;
  const std::int64_t start = first >= one.keys ? one.queries : (a.causal ? first / tile * tile : 0);
  float key_sums[width / 32] = {}, value_sums[width / 32] = {};
  for (std::int64_t begin = start; begin < one.queries; begin += tile) {
    __syncthreads();
    load_rows<width, T>(rows, a, a.q, one, begin, one.queries, tile);
    __syncthreads();
    const std::int64_t i = begin + lane;
    const bool is_seen = is_there && i < one.queries && (!a.causal || j <= i);
    const float weight = is_seen ? weight_of(a.scale * product<width>(own[warp], rows[lane]),
                                             a.statistics[place_of(a, one, i)])
                                 : 0.0f;
    __syncthreads();
    load_rows<width, T>(rows, a, a.dy, one, begin, one.queries, tile);
    __syncthreads();
    const float slope =
        product<width>(own_v[warp], rows[lane]) - (is_seen ? products[place_of(a, one, i)] : 0.0f);
    add_rows<width>(value_sums, weight, rows);
    __syncthreads();
    load_rows<width, T>(rows, a, a.q, one, begin, one.queries, tile);
    __syncthreads();
    add_rows<width>(key_sums, is_seen ? weight * slope * a.scale : 0.0f, rows);
  }
  if (j >= a.k.rows) return;
  store_row<width, T>(a, dk, one, j, key_sums, 1);
  store_row<width, T>(a, dv, one, j, value_sums, 1);
}

// Calls run(Type<T>{}, width) with a bound of the heads' width as a constant.
template <class Run>
void with_width(const AttentionArrays& a, Run&& run) {
  with_float_type(a.type, [&](auto type) {
    if (a.head_width <= 32)
      run(type, std::integral_constant<int, 32>());
    else if (a.head_width <= 64)
      run(type, std::integral_constant<int, 64>());
    else
      run(type, std::integral_constant<int, most_head_width>());
  });
}

dim3 grid_of(const AttentionArrays& a, std::int64_t rows) {
  return dim3(static_cast<unsigned>((rows + warps - 1) / warps),
              static_cast<unsigned>(a.items * a.heads));
}

}  // namespace

void attention(const Launch& launch, const AttentionArrays& arrays) {
  with_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    [[maybe_unused]] constexpr int bound = decltype(width)::value;
    const dim3 grid = grid_of(arrays, arrays.q.rows);
    attention_kernel<bound, T><<<grid, threads, 0, launch.stream>>>(arrays);
  });
}

void attention_gradient(const Launch& launch, const AttentionArrays& arrays,
                        const AttentionGradients& to) {
  with_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    [[maybe_unused]] constexpr int bound = decltype(width)::value;
    const dim3 of_queries = grid_of(arrays, arrays.q.rows);
    query_gradient_kernel<bound, T>
        <<<of_queries, threads, 0, launch.stream>>>(arrays, to.dq, to.products);
    const dim3 of_keys = grid_of(arrays, arrays.k.rows);
    key_gradient_kernel<bound, T>
        <<<of_keys, threads, 0, launch.stream>>>(arrays, to.dk, to.dv, to.products);
  });
}

}  // namespace tasuki::kernels
