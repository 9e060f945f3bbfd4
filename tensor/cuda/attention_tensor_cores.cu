// Attention of 16-bit values on tensor cores (FlashAttention-2: Dao, arXiv 2307.08691). A block has
// 64 rows of one side (queries, or keys for their gradients), 16 for each warp, and meets the other
// side in tiles. Scores, weights and sums are float32; weights and the scores' gradients are
// rounded to 16 bits before they are multiplied. Each result is added up by one warp in a fixed
// order.
#include <cmath>
#include <cstring>

#include "tensor/cuda/attention_heads.cuh"
#include "tensor/cuda/tensor_core_instructions.cuh"

namespace tasuki::kernels {
namespace {

constexpr int warp_rows = 16, block_rows = 64, threads = 128;
constexpr float log2_of_e = 1.44269504f;

// Rows in shared memory. 16 bytes between them put equal columns of 8 rows into different banks.
template <class T, int rows, int width>
struct alignas(16) Rows {
  T values[rows][width + 8];
};

// Rows begin .. of an array, zeros behind `end` and behind the head's width.
template <class T, int rows, int width>
__device__ void load_rows(Rows<T, rows, width>& to, const AttentionArrays& a,
                          const HeadArray& array, const OneHead& one, std::int64_t begin,
                          std::int64_t end) {
  constexpr int packs = width / Pack<T>::width;
  for (int i = threadIdx.x; i < rows * packs; i += threads) {
    const int row = i / packs, column = i % packs * Pack<T>::width;
    const Pack<T> pack =
        begin + row < end ? pack_of<T>(a, array, one, begin + row, column) : Pack<T>{};
    store_pack(&to.values[row][column], 0, pack);
  }
}

// products[n][e] = own row times other row, for a warp's 16 own rows and all others; columns of
// `products` are other rows, 8 for each n, as multiply_add() has them.
template <class T, int rows, int others, int width>
__device__ void multiply_rows(float (&products)[others / 8][4], const Rows<T, rows, width>& own,
                              int first, const Rows<T, others, width>& other) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int n = 0; n < others / 8; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) products[n][e] = 0;
#pragma unroll
  for (int k = 0; k < width; k += 16) {
    std::uint32_t a[4];
    load_matrices(a, &own.values[first + lane % 16][k + lane / 16 * 8]);
#pragma unroll
    for (int n = 0; n < others / 8; n += 2) {
      std::uint32_t b[4];
      load_matrices(b, &other.values[8 * (n + lane / 16) + lane % 8][k + lane / 8 % 2 * 8]);
      multiply_add<T>(products[n], a, b[0], b[1]);
      multiply_add<T>(products[n + 1], a, b[2], b[3]);
    }
  }
}

template <class T>
__device__ std::uint32_t two_values(float low, float high) {
  std::uint32_t both;
  if constexpr (std::is_same_v<T, __half>) {
    const __half2 rounded = __floats2half2_rn(low, high);
    memcpy(&both, &rounded, sizeof(both));
  } else {
    const __nv_bfloat162 rounded = __floats2bfloat162_rn(low, high);
    memcpy(&both, &rounded, sizeof(both));
  }
  return both;
}

// sums (16 x width) += factors (16 x others) times the other rows.
template <class T, int others, int width>
__device__ void add_rows(float (&sums)[width / 8][4], const float (&factors)[others / 8][4],
                         const Rows<T, others, width>& other) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int k = 0; k < others / 16; ++k) {
    const float(&left)[4] = factors[2 * k];
    const float(&right)[4] = factors[2 * k + 1];
    const std::uint32_t a[4] = {two_values<T>(left[0], left[1]), two_values<T>(left[2], left[3]),
                                two_values<T>(right[0], right[1]),
                                two_values<T>(right[2], right[3])};
#pragma unroll
    for (int d = 0; d < width / 8; d += 2) {
      std::uint32_t b[4];
      load_transposed(b, &other.values[16 * k + lane % 16][8 * (d + lane / 16)]);
      multiply_add<T>(sums[d], a, b[0], b[1]);
      multiply_add<T>(sums[d + 1], a, b[2], b[3]);
    }
  }
}

// One of the four values that a lane has of a 16 x 8 part: rows first + 8 (e / 2), columns e % 2.
struct Lane {
  int row, column;  // of value 0
  __device__ Lane() : row(threadIdx.x % 32 / 4), column(threadIdx.x % 4 * 2) {}
};

// Over the 4 lanes that have a row.
template <class Op>
__device__ float over_row(float value, Op op) {
  value = op(value, __shfl_xor_sync(~0u, value, 1));
  return op(value, __shfl_xor_sync(~0u, value, 2));
}

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// e^x, where x may be minus infinity.
__device__ float exponential(float x) {
  return exp2f(x * log2_of_e);
}

// Rows first .. first + 15 of an array: `sums` times factors[0 or 1]; zeros from `end` on.
template <class T, int width>
__device__ void store_rows(const AttentionArrays& a, const HeadArray& array, const OneHead& one,
                           std::int64_t first, std::int64_t end, const float (&sums)[width / 8][4],
                           const float (&factors)[2]) {
  const Lane lane;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t row = first + lane.row + 8 * half;
    if (row >= array.rows) continue;
    T* const to = row_of<T>(a, array, one, row);
#pragma unroll
    for (int d = 0; d < width / 8; ++d) {
      const int column = 8 * d + lane.column;
      const float low = row < end ? sums[d][2 * half] * factors[half] : 0.0f;
      const float high = row < end ? sums[d][2 * half + 1] * factors[half] : 0.0f;
      if (a.has_packs) {
        if (column < a.head_width)
          store<2>(to + column, 0, Values<T, 2>{convert<T>(low), convert<T>(high)});
      } else {
        if (column < a.head_width) to[column] = convert<T>(low);
        if (column + 1 < a.head_width) to[column + 1] = convert<T>(high);
      }
    }
  }
}

// The keys that the queries first .. first + 63 see begin at 0 and end here.
__device__ std::int64_t end_of_keys(const AttentionArrays& a, const OneHead& one,
                                    std::int64_t first) {
  if (first >= one.queries) return 0;
  return a.causal && first + block_rows < one.keys ? first + block_rows : one.keys;
}

__device__ int within(std::int64_t value, int most) {
  return value < 0 ? 0 : (value > most ? most : static_cast<int>(value));
}

// How many of the keys begin .. begin + tile - 1 query i sees: the first ones.
__device__ int keys_seen(const AttentionArrays& a, const OneHead& one, std::int64_t i,
                         std::int64_t begin, int tile) {
  if (i >= one.queries) return 0;
  const std::int64_t end = a.causal && i + 1 < one.keys ? i + 1 : one.keys;
  return within(end - begin, tile);
}

// The queries begin + first .. begin + end - 1 of a tile see key j.
struct Seers {
  int first, end;
};
__device__ Seers queries_seeing(const AttentionArrays& a, const OneHead& one, std::int64_t j,
                                std::int64_t begin, int tile) {
  if (j >= one.keys) return {tile, 0};
  return {a.causal ? within(j - begin, tile) : 0, within(one.queries - begin, tile)};
}

// Blocks: x for rows, those with the most keys first, and y for heads of items.
template <int width, class T>
__global__ void __launch_bounds__(threads) attention_kernel(AttentionArrays a) {
  constexpr int tile = width <= 64 ? 64 : 32;
  __shared__ Rows<T, block_rows, width> queries;
  __shared__ Rows<T, tile, width> keys, values;
  const OneHead one = head_of(a, blockIdx.y);
  const Lane lane;
  const std::int64_t first = std::int64_t{gridDim.x - 1 - blockIdx.x} * block_rows;
  const int own = threadIdx.x / 32 * warp_rows;
  load_rows(queries, a, a.q, one, first, one.queries);
  const std::int64_t end = end_of_keys(a, one, first);
  float sums[width / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, total[2] = {};
  for (std::int64_t begin = 0; begin < end; begin += tile) {
    __syncthreads();
    load_rows(keys, a, a.k, one, begin, one.keys);
    load_rows(values, a, a.v, one, begin, one.keys);
    __syncthreads();
    float scores[tile / 8][4];
    multiply_rows(scores, queries, own, keys);
    const int seen[2] = {keys_seen(a, one, first + own + lane.row, begin, tile),
                         keys_seen(a, one, first + own + lane.row + 8, begin, tile)};
    float new_top[2] = {top[0], top[1]};
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const bool is_seen = 8 * n + lane.column + e % 2 < seen[e / 2];
        scores[n][e] = is_seen ? a.scale * scores[n][e] : -INFINITY;
        new_top[e / 2] = fmaxf(new_top[e / 2], scores[n][e]);
      }
    float base[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      new_top[half] = over_row(new_top[half], Larger());
      base[half] = new_top[half] == -INFINITY ? 0.0f : new_top[half];
      const float factor = exponential(top[half] - base[half]);
      top[half] = new_top[half];
      total[half] *= factor;
#pragma unroll
      for (int d = 0; d < width / 8; ++d) {
        sums[d][2 * half] *= factor;
        sums[d][2 * half + 1] *= factor;
      }
    }
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[n][e] = exponential(scores[n][e] - base[e / 2]);
        total[e / 2] += scores[n][e];
      }
    add_rows<T, tile, width>(sums, scores, values);
  }
  float factors[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    total[half] = over_row(total[half], Plus());
    factors[half] = 1 / total[half];
    const std::int64_t i = first + own + lane.row + 8 * half;
    if (lane.column == 0 && i < a.q.rows)
      a.statistics[place_of(a, one, i)] =
          i < one.queries ? float2{top[half], total[half]} : float2{};
  }
  store_rows<T, width>(a, a.y, one, first + own, one.queries, sums, factors);
}

// Also writes each query's sum over y dy to `products`.
template <int width, class T>
__global__ void __launch_bounds__(threads)
    query_gradient_kernel(AttentionArrays a, HeadArray dq, float* products) {
  constexpr int tile = width <= 64 ? 64 : 16;
  __shared__ Rows<T, block_rows, width> queries, upstream;
  __shared__ Rows<T, tile, width> keys, values;
  const OneHead one = head_of(a, blockIdx.y);
  const Lane lane;
  const std::int64_t first = std::int64_t{gridDim.x - 1 - blockIdx.x} * block_rows;
  const int own = threadIdx.x / 32 * warp_rows;
  load_rows(queries, a, a.q, one, first, one.queries);
  load_rows(upstream, a, a.dy, one, first, one.queries);
  __syncthreads();
  float2 statistics[2];
  float product[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t i = first + own + lane.row + 8 * half;
    const bool is_there = i < one.queries;
    statistics[half] = is_there ? a.statistics[place_of(a, one, i)] : float2{0, 1};
    float sum = 0;
    if (is_there) {
      const T* const y = row_of<T>(a, a.y, one, i);
      for (int c = lane.column / 2; c < a.head_width; c += 4)
        sum += convert<float>(y[c]) * convert<float>(upstream.values[own + lane.row + 8 * half][c]);
    }
    product[half] = over_row(sum, Plus());
    if (lane.column == 0 && i < a.q.rows) products[place_of(a, one, i)] = product[half];
    statistics[half].y = 1 / statistics[half].y;
  }
  const std::int64_t end = end_of_keys(a, one, first);
  float sums[width / 8][4] = {};
  for (std::int64_t begin = 0; begin < end; begin += tile) {
    __syncthreads();
    load_rows(keys, a, a.k, one, begin, one.keys);
    load_rows(values, a, a.v, one, begin, one.keys);
    __syncthreads();
    float scores[tile / 8][4], slopes[tile / 8][4];
    multiply_rows(scores, queries, own, keys);
    multiply_rows(slopes, upstream, own, values);
    const int seen[2] = {keys_seen(a, one, first + own + lane.row, begin, tile),
                         keys_seen(a, one, first + own + lane.row + 8, begin, tile)};
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int half = e / 2;
        const bool is_seen = 8 * n + lane.column + e % 2 < seen[half];
        const float weight =
            exponential(a.scale * scores[n][e] - statistics[half].x) * statistics[half].y;
        slopes[n][e] = is_seen ? weight * (slopes[n][e] - product[half]) * a.scale : 0.0f;
      }
    add_rows<T, tile, width>(sums, slopes, keys);
  }
  store_rows<T, width>(a, dq, one, first + own, one.queries, sums, {1, 1});
}

template <int width, class T>
__global__ void __launch_bounds__(threads)
    key_gradient_kernel(AttentionArrays a, HeadArray dk, HeadArray dv, const float* products) {
  constexpr int tile = width <= 64 ? 32 : 16;
  __shared__ Rows<T, block_rows, width> keys, values;
  __shared__ Rows<T, tile, width> queries, upstream;
  __shared__ float tops[tile], factors[tile], sums_of_y[tile];
  const OneHead one = head_of(a, blockIdx.y);
  const Lane lane;
  const std::int64_t first = std::int64_t{blockIdx.x} * block_rows;
  const int own = threadIdx.x / 32 * warp_rows;
  load_rows(keys, a, a.k, one, first, one.keys);
  load_rows(values, a, a.v, one, first, one.keys);
  // With one query for each key, those before the block's first key see none of its keys.
  const std::int64_t start = first >= one.keys ? one.queries : (a.causal ? first : 0);
  float key_sums[width / 8][4] = {}, value_sums[width / 8][4] = {};
  for (std::int64_t begin = start; begin < one.queries; begin += tile) {
    __syncthreads();
    load_rows(queries, a, a.q, one, begin, one.queries);
    load_rows(upstream, a, a.dy, one, begin, one.queries);
    for (int r = threadIdx.x; r < tile; r += threads) {
      const bool is_there = begin + r < one.queries;
      const std::int64_t place = place_of(a, one, begin + r);
      tops[r] = is_there ? a.statistics[place].x : 0.0f;
      factors[r] = is_there ? 1 / a.statistics[place].y : 0.0f;
      sums_of_y[r] = is_there ? products[place] : 0.0f;
    }
    __syncthreads();
    float weights[tile / 8][4], slopes[tile / 8][4];
    multiply_rows(weights, keys, own, queries);
    multiply_rows(slopes, values, own, upstream);
    const Seers seers[2] = {queries_seeing(a, one, first + own + lane.row, begin, tile),
                            queries_seeing(a, one, first + own + lane.row + 8, begin, tile)};
#pragma unroll
    for (int n = 0; n < tile / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int r = 8 * n + lane.column + e % 2;
        const bool is_seen = r >= seers[e / 2].first && r < seers[e / 2].end;
        weights[n][e] =
            is_seen ? exponential(a.scale * weights[n][e] - tops[r]) * factors[r] : 0.0f;
        slopes[n][e] = weights[n][e] * (slopes[n][e] - sums_of_y[r]) * a.scale;
      }
    add_rows<T, tile, width>(value_sums, weights, upstream);
    add_rows<T, tile, width>(key_sums, slopes, queries);
  }
  store_rows<T, width>(a, dk, one, first + own, one.keys, key_sums, {1, 1});
  store_rows<T, width>(a, dv, one, first + own, one.keys, value_sums, {1, 1});
}

dim3 grid_of(const AttentionArrays& a, std::int64_t rows) {
  return dim3(static_cast<unsigned>((rows + block_rows - 1) / block_rows),
              static_cast<unsigned>(a.items * a.heads));
}

template <class Run>
void with_type_and_width(const AttentionArrays& a, Run&& run) {
  const auto with = [&](auto type) {
    if (a.head_width <= 32)
      run(type, std::integral_constant<int, 32>());
    else if (a.head_width <= 64)
      run(type, std::integral_constant<int, 64>());
    else
      run(type, std::integral_constant<int, most_tensor_core_width>());
  };
  if (a.type == DType::float16)
    with(Type<__half>());
  else
    with(Type<__nv_bfloat16>());
}

}  // namespace

bool has_tensor_core_code(int compute_capability) {
#ifdef __CUDA_ARCH_LIST__
  // A device runs the newest code that is not newer than itself.
  for (const int compiled : {__CUDA_ARCH_LIST__})
    if (compiled >= 800 && compiled <= 10 * compute_capability) return true;
  return false;
#else
  return compute_capability >= 80;
#endif
}

void tensor_core_attention(const Launch& launch, const AttentionArrays& arrays) {
  with_type_and_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    [[maybe_unused]] constexpr int bound = decltype(width)::value;
    const dim3 grid = grid_of(arrays, arrays.q.rows);
    attention_kernel<bound, T><<<grid, threads, 0, launch.stream>>>(arrays);
  });
}

void tensor_core_attention_gradient(const Launch& launch, const AttentionArrays& arrays,
                                    const AttentionGradients& to) {
  with_type_and_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    [[maybe_unused]] constexpr int bound = decltype(width)::value;
    const dim3 of_queries = grid_of(arrays, arrays.q.rows);
    if (arrays.q.rows > 0)
      query_gradient_kernel<bound, T>
          <<<of_queries, threads, 0, launch.stream>>>(arrays, to.dq, to.products);
    const dim3 of_keys = grid_of(arrays, arrays.k.rows);
    if (arrays.k.rows > 0)
      key_gradient_kernel<bound, T>
          <<<of_keys, threads, 0, launch.stream>>>(arrays, to.dk, to.dv, to.products);
  });
}

}  // namespace tasuki::kernels
