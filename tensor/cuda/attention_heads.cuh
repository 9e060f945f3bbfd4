// Where the rows of a head are, for the kernels of attention.
#pragma once

#include "tensor/cuda/attention_kernels.hpp"
#include "tensor/cuda/kernel_support.cuh"

namespace tasuki::kernels {

// The part of the arrays that one block works on.
struct OneHead {
  std::int64_t queries, keys;  // without padding
  std::int64_t item, head;
};

__device__ inline OneHead head_of(const AttentionArrays& a, std::int64_t number) {
  OneHead one{0, 0, number / a.heads, number % a.heads};
  one.keys = a.lengths != nullptr ? a.lengths[one.item] : a.k.rows;
  one.keys = one.keys < 0 ? 0 : (one.keys > a.k.rows ? a.k.rows : one.keys);
  one.queries = one.keys == 0 ? 0 : (a.causal ? one.keys : a.q.rows);
  return one;
}

template <class T>
__device__ T* row_of(const AttentionArrays& a, const HeadArray& array, const OneHead& one,
                     std::int64_t row) {
  return static_cast<T*>(array.values) + (one.item * array.rows + row) * array.width +
         one.head * a.head_width;
}

// Columns of a row, from `column` on; zeros behind the head's width.
template <class T>
__device__ Pack<T> pack_of(const AttentionArrays& a, const HeadArray& array, const OneHead& one,
                           std::int64_t row, int column) {
  if (column >= a.head_width) return {};
  const T* const from = row_of<T>(a, array, one, row) + column;
  if (a.has_packs) return load_pack(from, 0);
  Pack<T> pack = {};
  for (int c = 0; c < Pack<T>::width; ++c)
    if (column + c < a.head_width) pack.values[c] = from[c];
  return pack;
}

// Of a query, in arrays of N x heads x queries.
__device__ inline std::int64_t place_of(const AttentionArrays& a, const OneHead& one,
                                        std::int64_t query) {
  return (one.item * a.heads + one.head) * a.q.rows + query;
}

}  // namespace tasuki::kernels
