// tree_product_kernels.hpp for vectors of any width; as interleaved_kernels_any.hpp, everything is
// local to the file that includes it.
#pragma once

#include "tensor/cpu/tree_product_kernels.hpp"

namespace tasuki {
namespace {

// `rows` x `vectors` vectors of `width` floats stay in registers. Each sum is a chain over the rows
// of a product, in their order.
template <int width, int rows, int vectors>
void sum_tile(const TreeTile& tile) {
  typedef float Vector __attribute__((vector_size(width * sizeof(float))));
  typedef float Stored
      __attribute__((vector_size(width * sizeof(float)), aligned(sizeof(float)), may_alias));
  constexpr int columns = width * vectors;
  const float* a = tile.a;
  const float* b = tile.b;
  float* waiting = tile.waiting;
  Vector sums[rows][vectors];
  // The result's lines arrive while sums are computed.
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) __builtin_prefetch(tile.c + r * tile.c_step + v * width, 1);
  for (std::int64_t i = 0;; ++i) {
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sums[r][v] = Vector{};
    for (std::int64_t k = tile.products[i].rows; k > 0; --k, a += rows, b += columns) {
      Vector lines[vectors];
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) lines[v] = *reinterpret_cast<const Stored*>(b + v * width);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < vectors; ++v) sums[r][v] += a[r] * lines[v];
    }
    for (int merge = 0; merge < tile.products[i].merges; ++merge) {
      waiting -= rows * columns;
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
        for (int v = 0; v < vectors; ++v)
          sums[r][v] =
              *reinterpret_cast<const Stored*>(waiting + r * columns + v * width) + sums[r][v];
    }
    if (i + 1 >= tile.count) break;
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v)
        *reinterpret_cast<Stored*>(waiting + r * columns + v * width) = sums[r][v];
    waiting += rows * columns;
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v)
      *reinterpret_cast<Stored*>(tile.c + r * tile.c_step + v * width) = sums[r][v];
}

template <int rows>
void copy_rows(const float* from, std::int64_t step, std::int64_t count, float* to) {
  for (; count > 0; --count, from += step, to += rows)
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) to[r] = from[r];
}

// Shorter tiles than of `vectors` are for the last columns.
template <int width, int rows, int vectors>
constexpr TreeKernels tree_kernels_of() {
  TreeKernels kernels{
      rows, width, vectors, {sum_tile<width, rows, 1>, sum_tile<width, rows, 2>}, copy_rows<rows>};
  if constexpr (vectors >= 3) kernels.run[2] = sum_tile<width, rows, 3>;
  if constexpr (vectors >= 4) kernels.run[3] = sum_tile<width, rows, 4>;
  return kernels;
}

}  // namespace
}  // namespace tasuki
