// Both operands are copied into the order in which tiles of the result read them; sums of a tile
// stay in registers, and those that wait for their siblings in the first-level cache.
#include "tensor/tree_product.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "core/error.hpp"
#include "core/range.hpp"
#include "tensor/cpu/tree_product_kernels.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {
namespace {

// The most sums that wait for their siblings at once.
std::int64_t most_waiting(std::span<const TreeProduct> products) {
  std::int64_t height = 0, most = 0;
  for (const TreeProduct& product : products) {
    TASUKI_CHECK(product.rows > 0 && product.merges >= 0 && product.merges <= height,
                 "a product of {} rows with {} additions of {} sums", product.rows, product.merges,
                 height + 1);
    most = std::max(most, height);
    height += 1 - product.merges;
  }
  TASUKI_CHECK(height == 1, "products end in {} sums; expected one", height);
  return most;
}

// Columns [begin, end) of the rows of all products, one after the other, filled up with zeros to
// `width` floats a row.
void copy_columns(std::span<const TreeProduct> products, const float* TreeProduct::*matrix,
                  std::int64_t columns, std::int64_t begin, std::int64_t end, std::int64_t width,
                  float* to) {
  const std::int64_t count = end - begin;
  for (const TreeProduct& product : products) {
    const float* from = product.*matrix + begin;
    for (std::int64_t row = 0; row < product.rows; ++row, from += columns, to += width) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
      std::fill(to + count, to + width, 0.0f);
    }
  }
}

// Rows [begin, end) of the result.
void multiply_rows(std::span<const TreeProduct> products, std::span<const TreeRows> parts,
                   std::int64_t rows, Range own, std::int64_t m, std::int64_t n, float* c,
                   const Tensor& waiting) {
  const TreeKernels& kernels = tree_kernels();
  const std::int64_t height = kernels.tile_rows, width = kernels.width;
  const std::int64_t tile_size = height * width * kernels.vectors;
  const std::int64_t row_tiles = (own.size() + height - 1) / height;
  const Tensor a = Tensor::empty({row_tiles * rows * height});
  const Tensor b = Tensor::empty({rows * width * kernels.vectors});
  for (std::int64_t tile = 0; tile < row_tiles; ++tile) {
    const std::int64_t begin = own.begin + tile * height;
    float* to = a.data<float>() + tile * rows * height;
    if (begin + height > own.end) {
      copy_columns(products, &TreeProduct::a, m, begin, own.end, height, to);
      break;
    }
    for (const TreeProduct& product : products) {
      kernels.copy_rows(product.a + begin, m, product.rows, to);
      to += product.rows * height;
    }
  }
  float* const cut_off = waiting.data<float>();  // for tiles that are not all in the result
  for (std::int64_t column = 0; column < n; column += width * kernels.vectors) {
    const std::int64_t columns = std::min(width * kernels.vectors, n - column);
    const std::int64_t vectors = (columns + width - 1) / width;
    copy_columns(products, &TreeProduct::b, n, column, column + columns, vectors * width,
                 b.data<float>());
    for (std::int64_t tile = 0; tile < row_tiles; ++tile) {
      const std::int64_t row = own.begin + tile * height;
      const std::int64_t tile_rows = std::min(height, own.end - row);
      const bool is_whole = tile_rows == height && columns == vectors * width;
      float* const to = c + row * n + column;
      kernels.run[vectors - 1]({.products = parts.data(),
                                .count = static_cast<std::int64_t>(parts.size()),
                                .a = a.data<float>() + tile * height * rows,
                                .b = b.data<float>(),
                                .waiting = waiting.data<float>() + tile_size,
                                .c = is_whole ? to : cut_off,
                                .c_step = is_whole ? n : vectors * width});
      if (is_whole) continue;
      for (std::int64_t i = 0; i < tile_rows; ++i)
        std::memcpy(to + i * n, cut_off + i * vectors * width,
                    static_cast<std::size_t>(columns) * sizeof(float));
    }
  }
}

}  // namespace

void multiply_in_tree(std::span<const TreeProduct> products, std::int64_t m, std::int64_t n,
                      float* c) {
  const TreeKernels& kernels = tree_kernels();
  std::int64_t rows = 0;
  std::vector<TreeRows> parts;
  for (const TreeProduct& product : products) {
    rows += product.rows;
    parts.push_back({product.rows, product.merges});
  }
  const std::int64_t tile_size = kernels.tile_rows * kernels.width * kernels.vectors;
  const Tensor waiting = Tensor::empty({(most_waiting(products) + 1) * tile_size});
  // Copies of `a` stay within a few megabytes.
  constexpr std::int64_t most_copied = std::int64_t{1} << 20;  // elements
  const std::int64_t step =
      std::max(most_copied / rows / kernels.tile_rows, std::int64_t{16}) * kernels.tile_rows;
  for (std::int64_t row = 0; row < m; row += step)
    multiply_rows(products, parts, rows, {row, std::min(row + step, m)}, m, n, c, waiting);
}

}  // namespace tasuki
