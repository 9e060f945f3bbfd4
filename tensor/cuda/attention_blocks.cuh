// How the kernels of attention multiply in float32: blocks of rows in shared memory, and of
// products and sums in registers.
#pragma once

#include "tensor/cuda/attention_heads.cuh"

namespace tasuki::kernels {

using Four = Values<float, 4>;

// A block has some rows of its own side (queries, or keys for their gradients) and meets the other
// side in tiles. Shared memory gives a multiprocessor one value for 4 multiplications, so a lane
// uses each value that it loads several times. The 32 lanes of a warp stand in 4 rows and 8
// columns:
// - Products of rows: a lane has `rows` own rows and `columns` rows of the tile. It loads 4 values
//   of each at once: rows + columns loads for 4 * rows * columns multiplications.
// - Sums of the tile's rows, times the factors that came of the products: a lane has `rows` own
//   rows and width / 8 columns of the head. For 4 rows of the tile it loads 4 factors of each own
//   row at once, and the values in its columns, by fours: rows + width / 8 loads for
//   4 * rows * width / 8 multiplications.
// `rows` is what the registers allow: 64 sums in a lane.
template <int head_width, int own_arrays, int sum_arrays>
struct Form {
  static constexpr int width = head_width, tile = width <= 128 ? 32 : 16, columns = tile / 8;
  static constexpr int block_rows = width <= 64 ? 64 : 4096 / width;
  static constexpr int most_rows = 512 / (width * sum_arrays), rows = most_rows < 8 ? most_rows : 8;
  static constexpr int warps = block_rows / (4 * rows), threads = 32 * warps;
  static constexpr int blocks = threads == 64 ? 4 : 3;  // of a multiprocessor

  // 16 bytes between rows put equal columns of 8 neighbours into different banks.
  template <int count, int values_of_row>
  struct alignas(16) Rows {
    float values[count][values_of_row + 4];
  };
  using Own = Rows<block_rows, width>;
  using Tile = Rows<tile, width>;
  // Of the warp's own rows, for the rows of a tile: that of row c + 8 k stands at columns * c + k,
  // so that a lane stores what it has computed at once.
  using Factors = Rows<4 * rows, tile>;

  // At most 64 KB, which every GPU since Turing has; without being asked, it gives 48.
  struct Shared {
    Own own[own_arrays];
    Tile others;
    Factors factors[warps];
  };

  using Products = float[rows][columns];
  // Four x of lane column c are the head's columns 4 c + 32 x and the next 3.
  using Sums = Four[rows][width / 32];
};

template <class F>
__device__ typename F::Shared& shared_of_block() {
  extern __shared__ float4 memory[];
  return *reinterpret_cast<typename F::Shared*>(memory);
}

// Neighbours have equal rows or columns, so that half a warp loads 16 bytes from 4 places.
struct Lane {
  int warp, row, column;
  __device__ Lane() : warp(threadIdx.x / 32) {
    const int lane = threadIdx.x % 32;
    row = lane / 2 % 2 + lane / 8 % 2 * 2;
    column = lane % 2 + lane / 4 % 2 * 2 + lane / 16 * 4;
  }
  // Places in the block: of the warp's first own row, and of the lane's row r.
  template <class F>
  __device__ int first() const {
    return warp * 4 * F::rows;
  }
  template <class F>
  __device__ int own(int r) const {
    return first<F>() + row + 4 * r;
  }
};

// Over the 8 lanes that stand in a row.
template <class Op>
__device__ float over_row(float value, Op op) {
  for (const int step : {1, 4, 16}) value = op(value, __shfl_xor_sync(~0u, value, step));
  return value;
}

// Rows begin .. of an array, zeros behind `end` and behind the head's width.
template <class T, class F, class Rows>
__device__ void load_rows(Rows& to, const AttentionArrays& a, const HeadArray& array,
                          const OneHead& one, int begin, std::int64_t end) {
  constexpr int rows = sizeof(to.values) / sizeof(to.values[0]), packs = F::width / Pack<T>::width;
  constexpr int rows_at_once = F::threads / packs;
  const int first = threadIdx.x / packs, column = threadIdx.x % packs * Pack<T>::width;
  static_assert(rows % rows_at_once == 0);
#pragma unroll 4
  for (int n = 0; n < rows; n += rows_at_once) {
    const int row = first + n;
    const Pack<T> pack =
        begin + row < end ? pack_of<T>(a, array, one, begin + row, column) : Pack<T>{};
    for (int c = 0; c < Pack<T>::width; c += 4)
      store<4>(&to.values[row][column + c], 0,
               Four{convert<float>(pack.values[c]), convert<float>(pack.values[c + 1]),
                    convert<float>(pack.values[c + 2]), convert<float>(pack.values[c + 3])});
  }
}

// Adds those of the lane's own rows and its rows of the tile.
template <class F>
__device__ void multiply_rows(typename F::Products& products, const typename F::Own& own,
                              const typename F::Tile& others) {
  const Lane lane;
#pragma unroll 1
  for (int x = 0; x < F::width; x += 4) {
    Four b[F::columns];
#pragma unroll
    for (int k = 0; k < F::columns; ++k) b[k] = load<4>(&others.values[lane.column + 8 * k][x], 0);
#pragma unroll
    for (int r = 0; r < F::rows; ++r) {
      const Four a = load<4>(&own.values[lane.own<F>(r)][x], 0);
#pragma unroll
      for (int k = 0; k < F::columns; ++k)
#pragma unroll
        for (int e = 0; e < 4; ++e) products[r][k] += a.values[e] * b[k].values[e];
    }
  }
}

// Adds the tile's rows, times the factors of the lanes, to each own row's sums.
template <class F>
__device__ void add_rows(typename F::Sums& sums, const typename F::Products& of_lane,
                         typename F::Shared& shared) {
  const Lane lane;
  auto& factors = shared.factors[lane.warp].values;
  __syncwarp();  // the last ones may still be read
#pragma unroll
  for (int r = 0; r < F::rows; ++r) {
    Values<float, F::columns> values;
#pragma unroll
    for (int k = 0; k < F::columns; ++k) values.values[k] = of_lane[r][k];
    store<F::columns>(factors[lane.row + 4 * r], lane.column, values);
  }
  __syncwarp();
#pragma unroll 1
  for (int place = 0; place < F::tile; place += 4) {
    Four factor[F::rows];
#pragma unroll
    for (int r = 0; r < F::rows; ++r) factor[r] = load<4>(&factors[lane.row + 4 * r][place], 0);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const int other = (place + e) / F::columns + 8 * (e % F::columns);  // see Factors
#pragma unroll
      for (int x = 0; x < F::width / 32; ++x) {
        const Four value = load<4>(&shared.others.values[other][4 * lane.column + 32 * x], 0);
#pragma unroll
        for (int r = 0; r < F::rows; ++r)
#pragma unroll
          for (int c = 0; c < 4; ++c) sums[r][x].values[c] += factor[r].values[e] * value.values[c];
      }
    }
  }
}

template <class T, class F>
__device__ void store_row(const AttentionArrays& a, const HeadArray& array, const OneHead& one,
                          std::int64_t row, const Four (&sums)[F::width / 32], float factor) {
  T* const to = row_of<T>(a, array, one, row);
#pragma unroll
  for (int x = 0; x < F::width / 32; ++x) {
    const int column = 4 * Lane().column + 32 * x;
    Values<T, 4> values;
#pragma unroll
    for (int c = 0; c < 4; ++c) values.values[c] = convert<T>(sums[x].values[c] * factor);
    if (a.has_packs) {
      if (column < a.head_width) store<4>(to + column, 0, values);
    } else {
#pragma unroll
      for (int c = 0; c < 4; ++c)
        if (column + c < a.head_width) to[column + c] = values.values[c];
    }
  }
}

}  // namespace tasuki::kernels
