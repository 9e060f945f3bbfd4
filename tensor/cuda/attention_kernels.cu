#include <cfloat>
#include <cmath>

#include "tensor/cuda/attention_blocks.cuh"

namespace tasuki::kernels {
namespace {

template <int width>
using AttentionForm = Form<width, 1, 1>;
template <int width>
using QueryForm = Form<width, 2, 1>;
template <int width>
using KeyForm = Form<width, 2, 2>;

__device__ float exponential(float x) {
  constexpr float log2_of_e = 1.44269504f;
  return exp2f(x * log2_of_e);
}

// Of a query: the largest score, and one by the sum of exponentials.
struct Softmax {
  float top = 0, factor = 0;

  __device__ Softmax(const AttentionArrays& a, const OneHead& one, int query) {
    if (query >= one.queries) return;
    const float2 statistics = a.statistics[place_of(a, one, query)];
    top = statistics.x;
    factor = 1 / statistics.y;
  }
  __device__ float weight(float score) const { return exponential(score - top) * factor; }
};

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Where the keys end that any of these queries sees.
__device__ int end_of_keys(const AttentionArrays& a, const OneHead& one, int first, int rows = 1) {
  if (first >= one.queries) return 0;
  return static_cast<int>(a.causal && first + rows < one.keys ? first + rows : one.keys);
}

// Blocks: x for heads of items, y for rows. The blocks of queries with the most keys begin first.
template <class F>
__device__ int first_query() {
  return static_cast<int>(gridDim.y - 1 - blockIdx.y) * F::block_rows;
}

// Turns the scores' products into weights, relative to the largest score so far, and the sums and
// totals into what they are relative to that. A total is the one of this lane's keys.
template <class F>
__device__ void weigh_products(typename F::Products& weights, typename F::Sums& sums,
                               float (&top)[F::rows], float (&total)[F::rows],
                               const AttentionArrays& a, const OneHead& one, int first, int begin) {
  const Lane lane;
#pragma unroll
  for (int r = 0; r < F::rows; ++r) {
    const int end = end_of_keys(a, one, first + lane.own<F>(r));
    float new_top = top[r];
#pragma unroll
    for (int k = 0; k < F::columns; ++k) {
      const bool is_seen = begin + lane.column + 8 * k < end;
      weights[r][k] = is_seen ? a.scale * weights[r][k] : -INFINITY;
      new_top = fmaxf(new_top, weights[r][k]);
    }
    new_top = over_row(new_top, Larger());
    const float factor = exponential(top[r] - new_top);
    total[r] *= factor;
#pragma unroll
    for (int k = 0; k < F::columns; ++k) {
      weights[r][k] = exponential(weights[r][k] - new_top);
      total[r] += weights[r][k];
    }
    top[r] = new_top;
#pragma unroll
    for (Four& four : sums[r])
#pragma unroll
      for (float& sum : four.values) sum *= factor;
  }
}

template <int width, class T>
__global__ void __launch_bounds__(AttentionForm<width>::threads, AttentionForm<width>::blocks)
    attention_kernel(AttentionArrays a) {
  using F = AttentionForm<width>;
  auto& shared = shared_of_block<F>();
  const OneHead one = head_of(a, blockIdx.x);
  const Lane lane;
  const int first = first_query<F>();
  load_rows<T, F>(shared.own[0], a, a.q, one, first, one.queries);
  // All warps of a block load each tile, and those that see some of it take part.
  const int end = end_of_keys(a, one, first, F::block_rows),
            end_of_warp = end_of_keys(a, one, first + lane.first<F>(), 4 * F::rows);
  typename F::Sums sums = {};
  float top[F::rows], total[F::rows] = {};
  for (float& each : top) each = -FLT_MAX;  // not minus infinity, which less itself is no number
  for (int begin = 0; begin < end; begin += F::tile) {
    __syncthreads();
    load_rows<T, F>(shared.others, a, a.k, one, begin, one.keys);
    __syncthreads();
    typename F::Products weights = {};
    const bool takes_part = begin < end_of_warp;
    if (takes_part) {
      multiply_rows<F>(weights, shared.own[0], shared.others);
      weigh_products<F>(weights, sums, top, total, a, one, first, begin);
    }
    __syncthreads();
    load_rows<T, F>(shared.others, a, a.v, one, begin, one.keys);
    __syncthreads();
    if (takes_part) add_rows<F>(sums, weights, shared);
  }
#pragma unroll
  for (int r = 0; r < F::rows; ++r) {
    const int i = first + lane.own<F>(r);
    total[r] = over_row(total[r], Plus());
    if (i >= a.q.rows) continue;
    const bool is_there = i < one.queries;
    store_row<T, F>(a, a.y, one, i, sums[r], is_there ? 1 / total[r] : 0.0f);
    if (lane.column == 0)
      a.statistics[place_of(a, one, i)] = is_there ? float2{top[r], total[r]} : float2{};
  }
}

// The sum over columns of y and dy of the lane's row.
template <class T>
__device__ float product_of_results(const AttentionArrays& a, const OneHead& one,
                                    std::int64_t row) {
  float sum = 0;
  if (row < one.queries)
    for (std::int64_t c = Lane().column; c < a.head_width; c += 8)
      sum += convert<float>(row_of<T>(a, a.y, one, row)[c]) *
             convert<float>(row_of<T>(a, a.dy, one, row)[c]);
  return over_row(sum, Plus());
}

// Also writes each query's sum over y dy to `products`.
template <int width, class T>
__global__ void __launch_bounds__(QueryForm<width>::threads, QueryForm<width>::blocks)
    query_gradient_kernel(AttentionArrays a, HeadArray dq, float* products) {
  using F = QueryForm<width>;
  auto& shared = shared_of_block<F>();
  const OneHead one = head_of(a, blockIdx.x);
  const Lane lane;
  const int first = first_query<F>();
  auto& [queries, upstream] = shared.own;
  load_rows<T, F>(queries, a, a.q, one, first, one.queries);
  load_rows<T, F>(upstream, a, a.dy, one, first, one.queries);
  float product[F::rows];
#pragma unroll
  for (int r = 0; r < F::rows; ++r) {
    const int i = first + lane.own<F>(r);
    product[r] = product_of_results<T>(a, one, i);
    if (lane.column == 0 && i < a.q.rows) products[place_of(a, one, i)] = product[r];
  }
  const int end = end_of_keys(a, one, first, F::block_rows),
            end_of_warp = end_of_keys(a, one, first + lane.first<F>(), 4 * F::rows);
  typename F::Sums sums = {};
  for (int begin = 0; begin < end; begin += F::tile) {
    typename F::Products slopes = {};
    __syncthreads();
    load_rows<T, F>(shared.others, a, a.v, one, begin, one.keys);
    __syncthreads();
    if (begin < end_of_warp) multiply_rows<F>(slopes, upstream, shared.others);
    __syncthreads();
    load_rows<T, F>(shared.others, a, a.k, one, begin, one.keys);
    __syncthreads();
    if (begin >= end_of_warp) continue;
    typename F::Products scores = {};
    multiply_rows<F>(scores, queries, shared.others);
#pragma unroll
    for (int r = 0; r < F::rows; ++r) {
      const int i = first + lane.own<F>(r), end_of_row = end_of_keys(a, one, i);
      const Softmax softmax(a, one, i);
#pragma unroll
      for (int k = 0; k < F::columns; ++k) {
        const bool is_seen = begin + lane.column + 8 * k < end_of_row;
        const float weight = is_seen ? softmax.weight(a.scale * scores[r][k]) : 0.0f;
        slopes[r][k] = weight * (slopes[r][k] - product[r]);
      }
    }
    add_rows<F>(sums, slopes, shared);
  }
#pragma unroll
  for (int r = 0; r < F::rows; ++r) {
    const int i = first + lane.own<F>(r);
    if (i < a.q.rows) store_row<T, F>(a, dq, one, i, sums[r], a.scale);
  }
}

template <int width, class T>
__global__ void __launch_bounds__(KeyForm<width>::threads, KeyForm<width>::blocks)
    key_gradient_kernel(AttentionArrays a, HeadArray dk, HeadArray dv, const float* products) {
  using F = KeyForm<width>;
  auto& shared = shared_of_block<F>();
  const OneHead one = head_of(a, blockIdx.x);
  const Lane lane;
  const int first = static_cast<int>(blockIdx.y) * F::block_rows;
  auto& [keys, values] = shared.own;
  load_rows<T, F>(keys, a, a.k, one, first, one.keys);
  load_rows<T, F>(values, a, a.v, one, first, one.keys);
  // With one query for each key, those before the block's first key see none of its keys.
  const int queries = static_cast<int>(one.queries);
  const int start = first >= one.keys ? queries : (a.causal ? first : 0);
  typename F::Sums key_sums = {}, value_sums = {};
  for (int begin = start; begin < queries; begin += F::tile) {
    __syncthreads();
    load_rows<T, F>(shared.others, a, a.q, one, begin, one.queries);
    __syncthreads();
    typename F::Products weights = {}, slopes = {};
    const bool takes_part = !a.causal || first + lane.first<F>() < begin + F::tile;
    if (takes_part) {
      multiply_rows<F>(weights, keys, shared.others);
#pragma unroll
      for (int k = 0; k < F::columns; ++k) {
        const int i = begin + lane.column + 8 * k;
        const Softmax softmax(a, one, i);
#pragma unroll
        for (int r = 0; r < F::rows; ++r) {
          const int j = first + lane.own<F>(r);
          const bool is_seen = j < one.keys && i < queries && (!a.causal || j <= i);
          weights[r][k] = is_seen ? softmax.weight(a.scale * weights[r][k]) : 0.0f;
        }
      }
    }
    __syncthreads();
    load_rows<T, F>(shared.others, a, a.dy, one, begin, one.queries);
    __syncthreads();
    if (takes_part) {
      multiply_rows<F>(slopes, values, shared.others);
      add_rows<F>(value_sums, weights, shared);
    }
    __syncthreads();
    load_rows<T, F>(shared.others, a, a.q, one, begin, one.queries);
    __syncthreads();
    if (!takes_part) continue;
#pragma unroll
    for (int k = 0; k < F::columns; ++k) {
      const int i = begin + lane.column + 8 * k;
      const float product = i < queries ? products[place_of(a, one, i)] : 0.0f;
#pragma unroll
      for (int r = 0; r < F::rows; ++r) slopes[r][k] = weights[r][k] * (slopes[r][k] - product);
    }
    add_rows<F>(key_sums, slopes, shared);
  }
#pragma unroll
  for (int r = 0; r < F::rows; ++r) {
    const int j = first + lane.own<F>(r);
    if (j >= a.k.rows) continue;
    store_row<T, F>(a, dk, one, j, key_sums[r], a.scale);
    store_row<T, F>(a, dv, one, j, value_sums[r], 1);
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

template <class F>
dim3 grid_of(const AttentionArrays& a, std::int64_t rows) {
  return dim3(static_cast<unsigned>(a.items * a.heads),
              static_cast<unsigned>((rows + F::block_rows - 1) / F::block_rows));
}

// Lets the blocks of a kernel have the memory that they need, and returns how much. Where that
// fails, so does the launch.
template <class F, class... Parameters>
std::size_t allow_shared(void (*kernel)(Parameters...)) {
  constexpr std::size_t bytes = sizeof(typename F::Shared);
  static_assert(bytes <= 64 << 10);
  cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                       cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  return bytes;
}

}  // namespace

void attention(const Launch& launch, const AttentionArrays& arrays) {
  with_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    constexpr int bound = decltype(width)::value;
    using F = AttentionForm<bound>;
    const std::size_t bytes = allow_shared<F>(attention_kernel<bound, T>);
    const dim3 grid = grid_of<F>(arrays, arrays.q.rows);
    attention_kernel<bound, T><<<grid, F::threads, bytes, launch.stream>>>(arrays);
  });
}

void attention_gradient(const Launch& launch, const AttentionArrays& arrays,
                        const AttentionGradients& to) {
  with_width(arrays, [&](auto type, auto width) {
    using T = typename decltype(type)::type;
    constexpr int bound = decltype(width)::value;
    using OfQueries = QueryForm<bound>;
    using OfKeys = KeyForm<bound>;
    if (arrays.q.rows > 0) {
      const std::size_t bytes = allow_shared<OfQueries>(query_gradient_kernel<bound, T>);
      const dim3 grid = grid_of<OfQueries>(arrays, arrays.q.rows);
      query_gradient_kernel<bound, T>
          <<<grid, OfQueries::threads, bytes, launch.stream>>>(arrays, to.dq, to.products);
    }
    if (arrays.k.rows > 0) {
      const std::size_t bytes = allow_shared<OfKeys>(key_gradient_kernel<bound, T>);
      const dim3 grid = grid_of<OfKeys>(arrays, arrays.k.rows);
      key_gradient_kernel<bound, T>
          <<<grid, OfKeys::threads, bytes, launch.stream>>>(arrays, to.dk, to.dv, to.products);
    }
  });
}

}  // namespace tasuki::kernels
