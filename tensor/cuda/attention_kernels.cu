#include <cmath>

#include "tensor/cuda/attention_heads.cuh"

namespace tasuki::kernels {
namespace {

constexpr int tile = 32;  // rows of the other side: one for each lane

// A block has `warps` warps. A warp computes `rows` rows of its own side at once, so it reads each
// value of a tile once for all of them. The arrays of a block fit into 48 KB.
template <int width>
struct Form {
  static constexpr int warps = width <= 128 ? 8 : 4;
  static constexpr int rows = width <= 64 ? 4 : (width <= 128 ? 2 : 1);
  static constexpr int threads = 32 * warps, block_rows = warps * rows;
  static constexpr int blocks = 2;  // of a multiprocessor at least, which leaves enough registers
};

// Rows in shared memory. 16 bytes between them put the columns that 8 lanes read from 8 rows into
// different banks.
template <int width, int rows>
struct alignas(16) Rows {
  float values[rows][width + 4];
};

// What each warp multiplies the rows of a tile with.
template <int width>
struct alignas(16) Factors {
  float values[Form<width>::warps][Form<width>::rows][tile];
};

struct Four {
  float x, y, z, w;
};
__device__ Four four(const float* from) {
  const Values<float, 4> values = load<4>(from, 0);
  return {values.values[0], values.values[1], values.values[2], values.values[3]};
}

// Rows begin .. of an array, zeros behind `end` and behind the head's width.
template <class T, int width, int rows>
__device__ void load_rows(Rows<width, rows>& to, const AttentionArrays& a, const HeadArray& array,
                          const OneHead& one, std::int64_t begin, std::int64_t end) {
  constexpr int packs = width / Pack<T>::width;
  for (int i = threadIdx.x; i < rows * packs; i += Form<width>::threads) {
    const int row = i / packs, column = i % packs * Pack<T>::width;
    const Pack<T> pack =
        begin + row < end ? pack_of<T>(a, array, one, begin + row, column) : Pack<T>{};
    for (int c = 0; c < Pack<T>::width; c += 4)
      store<4>(
          &to.values[row][column + c], 0,
          Values<float, 4>{convert<float>(pack.values[c]), convert<float>(pack.values[c + 1]),
                           convert<float>(pack.values[c + 2]), convert<float>(pack.values[c + 3])});
  }
}

// Of the warp's own rows, from `first` on, and the lane's row of a tile.
template <int width, int own_rows>
__device__ void multiply_rows(float (&products)[Form<width>::rows],
                              const Rows<width, own_rows>& own, int first,
                              const Rows<width, tile>& other) {
  for (float& product : products) product = 0;
#pragma unroll 4
  for (int c = 0; c < width; c += 4) {
    const Four b = four(&other.values[threadIdx.x % 32][c]);
#pragma unroll
    for (int r = 0; r < Form<width>::rows; ++r) {
      const Four a = four(&own.values[first + r][c]);
      products[r] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
  }
}

// sums[r][c] += factors of row r times the tile's rows; a lane has the columns lane + 32 c.
template <int width>
__device__ void add_rows(float (&sums)[Form<width>::rows][width / 32],
                         const Factors<width>& factors, const Rows<width, tile>& rows) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll 2
  for (int j = 0; j < tile; j += 4) {
    Four factor[Form<width>::rows];
#pragma unroll
    for (int r = 0; r < Form<width>::rows; ++r) factor[r] = four(&factors.values[warp][r][j]);
#pragma unroll
    for (int c = 0; c < width / 32; ++c) {
      const int column = lane + 32 * c;
      const float v0 = rows.values[j][column], v1 = rows.values[j + 1][column],
                  v2 = rows.values[j + 2][column], v3 = rows.values[j + 3][column];
#pragma unroll
      for (int r = 0; r < Form<width>::rows; ++r)
        sums[r][c] += factor[r].x * v0 + factor[r].y * v1 + factor[r].z * v2 + factor[r].w * v3;
    }
  }
}

template <int width, class T>
__device__ void store_row(const AttentionArrays& a, const HeadArray& array, const OneHead& one,
                          std::int64_t row, const float (&sums)[width / 32], float factor) {
  const int lane = threadIdx.x % 32;
  T* const to = row_of<T>(a, array, one, row);
#pragma unroll
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

// Where the keys end that the queries of a block see.
__device__ std::int64_t end_of_keys(const AttentionArrays& a, const OneHead& one,
                                    std::int64_t first, int rows) {
  if (first >= one.queries) return 0;
  return a.causal && first + rows < one.keys ? first + rows : one.keys;
}

// Blocks: x for rows, y for heads of items.
template <int width, class T>
__global__ void __launch_bounds__(Form<width>::threads, Form<width>::blocks)
    attention_kernel(AttentionArrays a) {
  constexpr int rows = Form<width>::rows, block_rows = Form<width>::block_rows;
  __shared__ Rows<width, block_rows> queries;
  __shared__ Rows<width, tile> others;
  __shared__ Factors<width> weights;
  const OneHead one = head_of(a, blockIdx.y);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * block_rows;
  load_rows<T>(queries, a, a.q, one, first, one.queries);
  // All warps of a block take part in each tile.
  const std::int64_t end = end_of_keys(a, one, first, block_rows);
  float sums[rows][width / 32] = {}, top[rows], total[rows] = {};
  for (float& each : top) each = -INFINITY;
  for (std::int64_t begin = 0; begin < end; begin += tile) {
    __syncthreads();
    load_rows<T>(others, a, a.k, one, begin, one.keys);
    __syncthreads();
    const std::int64_t j = begin + lane;
    float scores[rows];
    multiply_rows<width>(scores, queries, warp * rows, others);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const std::int64_t i = first + warp * rows + r;
      const bool is_seen = i < one.queries && j < one.keys && (!a.causal || j <= i);
      const float score = is_seen ? a.scale * scores[r] : -INFINITY;
      const float new_top = fmaxf(top[r], warp_reduce(score, Larger()));
      const float weight = is_seen ? expf(score - new_top) : 0.0f;
      const float factor = top[r] == -INFINITY ? 0.0f : expf(top[r] - new_top);
      total[r] = total[r] * factor + warp_reduce(weight, Plus());
      top[r] = new_top;
      for (float& sum : sums[r]) sum *= factor;
      weights.values[warp][r][lane] = weight;
    }
    __syncthreads();
    load_rows<T>(others, a, a.v, one, begin, one.keys);
    __syncthreads();
    add_rows<width>(sums, weights, others);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t i = first + warp * rows + r;
    if (i >= a.q.rows) return;
    const bool is_there = i < one.queries;
    store_row<width, T>(a, a.y, one, i, sums[r], is_there ? 1 / total[r] : 0.0f);
    if (lane == 0)
      a.statistics[place_of(a, one, i)] = is_there ? float2{top[r], total[r]} : float2{};
  }
}

// The sum over columns of y and dy of this row, in all lanes.
template <class T>
__device__ float product_of_results(const AttentionArrays& a, const OneHead& one,
                                    std::int64_t row) {
  float sum = 0;
  for (std::int64_t c = threadIdx.x % 32; c < a.head_width; c += 32)
    sum += convert<float>(row_of<T>(a, a.y, one, row)[c]) *
           convert<float>(row_of<T>(a, a.dy, one, row)[c]);
  return warp_reduce(sum, Plus());
}

// Also writes each query's sum over y dy to `products`.
template <int width, class T>
__global__ void __launch_bounds__(Form<width>::threads, Form<width>::blocks)
    query_gradient_kernel(AttentionArrays a, HeadArray dq, float* products) {
  constexpr int rows = Form<width>::rows, block_rows = Form<width>::block_rows;
  __shared__ Rows<width, block_rows> queries, upstream;
  __shared__ Rows<width, tile> others;
  __shared__ Factors<width> slopes;
  const OneHead one = head_of(a, blockIdx.y);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * block_rows;
  load_rows<T>(queries, a, a.q, one, first, one.queries);
  load_rows<T>(upstream, a, a.dy, one, first, one.queries);
  float product[rows];
  float2 statistics[rows];
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t i = first + warp * rows + r;
    const bool is_there = i < one.queries;
    product[r] = is_there ? product_of_results<T>(a, one, i) : 0.0f;
    if (lane == 0 && i < a.q.rows) products[place_of(a, one, i)] = product[r];
    statistics[r] = is_there ? a.statistics[place_of(a, one, i)] : float2{};
  }
  const std::int64_t end = end_of_keys(a, one, first, block_rows);
  float sums[rows][width / 32] = {};
  for (std::int64_t begin = 0; begin < end; begin += tile) {
    __syncthreads();
    load_rows<T>(others, a, a.v, one, begin, one.keys);
    __syncthreads();
    float value_products[rows], scores[rows];
    multiply_rows<width>(value_products, upstream, warp * rows, others);
    __syncthreads();
    load_rows<T>(others, a, a.k, one, begin, one.keys);
    __syncthreads();
    multiply_rows<width>(scores, queries, warp * rows, others);
    const std::int64_t j = begin + lane;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const std::int64_t i = first + warp * rows + r;
      const bool is_seen = i < one.queries && j < one.keys && (!a.causal || j <= i);
      const float weight = is_seen ? weight_of(a.scale * scores[r], statistics[r]) : 0.0f;
      slopes.values[warp][r][lane] = weight * (value_products[r] - product[r]) * a.scale;
    }
    __syncwarp();
    add_rows<width>(sums, slopes, others);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t i = first + warp * rows + r;
    if (i < a.q.rows) store_row<width, T>(a, dq, one, i, sums[r], 1);
  }
}

template <int width, class T>
__global__ void __launch_bounds__(Form<width>::threads, Form<width>::blocks)
    key_gradient_kernel(AttentionArrays a, HeadArray dk, HeadArray dv, const float* products) {
  constexpr int rows = Form<width>::rows, block_rows = Form<width>::block_rows;
  __shared__ Rows<width, block_rows> keys, values;
  __shared__ Rows<width, tile> others;
  __shared__ Factors<width> factors;
  const OneHead one = head_of(a, blockIdx.y);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const std::int64_t first = std::int64_t{blockIdx.x} * block_rows;
  load_rows<T>(keys, a, a.k, one, first, one.keys);
  load_rows<T>(values, a, a.v, one, first, one.keys);
  // With one query for each key, those before the block's first key see none of its keys.
  const std::int64_t start = first >= one.keys ? one.queries : (a.causal ? first / tile * tile : 0);
  float key_sums[rows][width / 32] = {}, value_sums[rows][width / 32] = {};
  for (std::int64_t begin = start; begin < one.queries; begin += tile) {
    __syncthreads();
    load_rows<T>(others, a, a.q, one, begin, one.queries);
    __syncthreads();
    const std::int64_t i = begin + lane;
    const bool is_there = i < one.queries;
    const float2 statistics = is_there ? a.statistics[place_of(a, one, i)] : float2{};
    const float product = is_there ? products[place_of(a, one, i)] : 0.0f;
    float scores[rows], slopes[rows];
    multiply_rows<width>(scores, keys, warp * rows, others);
    __syncthreads();
    load_rows<T>(others, a, a.dy, one, begin, one.queries);
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      const std::int64_t j = first + warp * rows + r;
      const bool is_seen = is_there && j < one.keys && (!a.causal || j <= i);
      scores[r] = is_seen ? weight_of(a.scale * scores[r], statistics) : 0.0f;
      factors.values[warp][r][lane] = scores[r];
    }
    __syncthreads();
    multiply_rows<width>(slopes, values, warp * rows, others);
    add_rows<width>(value_sums, factors, others);
    __syncthreads();
    load_rows<T>(others, a, a.q, one, begin, one.queries);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      factors.values[warp][r][lane] = scores[r] * (slopes[r] - product) * a.scale;
    __syncthreads();
    add_rows<width>(key_sums, factors, others);
  }
#pragma unroll
  for (int r = 0; r < rows; ++r) {
    const std::int64_t j = first + warp * rows + r;
    if (j >= a.k.rows) return;
    store_row<width, T>(a, dk, one, j, key_sums[r], 1);
    store_row<width, T>(a, dv, one, j, value_sums[r], 1);
  }
}

// Calls run(Type<T>{}, width) with a bound of the heads' width as a constant.
template <class Run>
void with_width(const AttentionArrays& a, Run&& run) {
  with_float_type(a.type, [&](auto type) {
    if (a.head_width <= 32)
      run(type, std::integral_constant<int, 32>());
    else if (a.head_width <= 64)
      run(type, std::integral_constant<int, 64>());
    else if (a.head_width <= 128)
      run(type, std::integral_constant<int, 128>());
    else
      run(type, std::integral_constant<int, most_head_width>());
  });
}

template <int width>
dim3 grid_of(const AttentionArrays& a, std::int64_t rows) {
  constexpr int block_rows = Form<width>::block_rows;
  return dim3(static_cast<unsigned>((rows + block_rows - 1) / block_rows),
              static_cast<unsigned>(a.items * a.heads));
}

}  // namespace

void attention(const Launch& launch, const AttentionArrays& arrays) {
  with_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    constexpr int bound = decltype(width)::value;
    const dim3 grid = grid_of<bound>(arrays, arrays.q.rows);
    attention_kernel<bound, T><<<grid, Form<bound>::threads, 0, launch.stream>>>(arrays);
  });
}

void attention_gradient(const Launch& launch, const AttentionArrays& arrays,
                        const AttentionGradients& to) {
  with_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    constexpr int bound = decltype(width)::value, threads = Form<bound>::threads;
    const dim3 of_queries = grid_of<bound>(arrays, arrays.q.rows);
    if (arrays.q.rows > 0)
      query_gradient_kernel<bound, T>
          <<<of_queries, threads, 0, launch.stream>>>(arrays, to.dq, to.products);
    const dim3 of_keys = grid_of<bound>(arrays, arrays.k.rows);
    if (arrays.k.rows > 0)
      key_gradient_kernel<bound, T>
          <<<of_keys, threads, 0, launch.stream>>>(arrays, to.dk, to.dv, to.products);
  });
}

}  // namespace tasuki::kernels
