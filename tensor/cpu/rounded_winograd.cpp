#include "tensor/cpu/rounded_winograd.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/rounded_rows.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t lanes = row_lanes;  // channels of a block
constexpr std::int64_t planes = 16;  // places of a transformed tile, each a product of matrices
constexpr int tile = 2;              // results of a tile in each direction

// Pixels of 16 channels: a block of one image.
struct Pixels {
  std::uint16_t* values;
  std::int64_t height, width;

  [[gnu::always_inline]] bool has(std::int64_t y, std::int64_t x) const {
    return 0 <= y && y < height && 0 <= x && x < width;
  }
  [[gnu::always_inline]] std::uint16_t* at(std::int64_t y, std::int64_t x) const {
    return values + (y * width + x) * lanes;
  }
};

// Of 16 channels of transformed tiles: where the first tile's first plane begins, and how many
// elements lie between tiles and between planes.
template <class Element>
struct Planes {
  Element* begin;
  std::int64_t tile, plane;
};

// A column of B^T d: of the 4 pixels from (top, x) on, zeros outside of the image.
[[gnu::always_inline]] TASUKI_ROUNDING inline void transform_column(const Pixels& from,
                                                                    std::int64_t top,
                                                                    std::int64_t x, Row* column) {
  Row d[4];
  for (int y = 0; y < 4; ++y) d[y] = from.has(top + y, x) ? load_row(from.at(top + y, x)) : Row{};
  column[0] = d[0] - d[2];
  column[1] = d[1] + d[2];
  column[2] = d[2] - d[1];
  column[3] = d[1] - d[3];
}

// B^T d B of neighbouring tiles of 4 x 4 pixels, the first at (top, left). Each shares two columns
// with the next.
TASUKI_ROUNDING void transform_images(const Pixels& from, std::int64_t top, std::int64_t left,
                                      std::int64_t tiles, const Planes<std::uint16_t>& to) {
  Row d[4][4];  // columns
  transform_column(from, top, left, d[2]);
  transform_column(from, top, left + 1, d[3]);
  for (std::int64_t i = 0; i < tiles; ++i) {
    for (int y = 0; y < 4; ++y) {
      d[0][y] = d[2][y];
      d[1][y] = d[3][y];
    }
    transform_column(from, top, left + i * tile + 2, d[2]);
    transform_column(from, top, left + i * tile + 3, d[3]);
    for (int y = 0; y < 4; ++y) {
      std::uint16_t* const row = to.begin + i * to.tile + 4 * y * to.plane;
      store_row(d[0][y] - d[2][y], row);
      store_row(d[1][y] + d[2][y], row + to.plane);
      store_row(d[2][y] - d[1][y], row + 2 * to.plane);
      store_row(d[1][y] - d[3][y], row + 3 * to.plane);
    }
  }
}

// A dy A^T of neighbouring tiles of 2 x 2 pixels.
TASUKI_ROUNDING void transform_slopes(const Pixels& from, std::int64_t top, std::int64_t left,
                                      std::int64_t tiles, const Planes<std::uint16_t>& to) {
  for (std::int64_t i = 0; i < tiles; ++i, left += tile) {
    Row d[4][2];
    for (int x = 0; x < tile; ++x) {
      const Row a = from.has(top, left + x) ? load_row(from.at(top, left + x)) : Row{};
      const Row b = from.has(top + 1, left + x) ? load_row(from.at(top + 1, left + x)) : Row{};
      d[0][x] = a;
      d[1][x] = a + b;
      d[2][x] = a - b;
      d[3][x] = -b;
    }
    for (int y = 0; y < 4; ++y) {
      std::uint16_t* const row = to.begin + i * to.tile + 4 * y * to.plane;
      store_row(d[y][0], row);
      store_row(d[y][0] + d[y][1], row + to.plane);
      store_row(d[y][0] - d[y][1], row + 2 * to.plane);
      store_row(-d[y][1], row + 3 * to.plane);
    }
  }
}

// A^T m A + b of neighbouring tiles: 2 x 2 pixels each, those that the image has.
TASUKI_ROUNDING void transform_results(const Planes<const float>& from, const float* b,
                                       const Pixels& to, std::int64_t top, std::int64_t left,
                                       std::int64_t tiles) {
  const Row bias = load_row(b);
  for (std::int64_t i = 0; i < tiles; ++i, left += tile) {
    const float* const first = from.begin + i * from.tile;
    Row m[2][4];
    for (int x = 0; x < 4; ++x) {
      const Row middle = load_row(first + (4 + x) * from.plane),
                last = load_row(first + (8 + x) * from.plane);
      m[0][x] = load_row(first + x * from.plane) + middle + last;
      m[1][x] = middle - last - load_row(first + (12 + x) * from.plane);
    }
    for (int y = 0; y < tile; ++y) {
      if (to.has(top + y, left))
        store_row(m[y][0] + m[y][1] + m[y][2] + bias, to.at(top + y, left));
      if (to.has(top + y, left + 1))
        store_row(m[y][1] - m[y][2] - m[y][3] + bias, to.at(top + y, left + 1));
    }
  }
}

// G g G^T of 16 filters, whose weights are 9 rows, to 16 planes.
TASUKI_ROUNDING void transform_filters(const float* g, std::uint16_t* to, std::int64_t plane) {
  Row u[4][3];
  for (int x = 0; x < 3; ++x) {
    const Row a = load_row(g + x * lanes), b = load_row(g + (3 + x) * lanes),
              c = load_row(g + (6 + x) * lanes);
    u[0][x] = a;
    u[1][x] = 0.5f * (a + b + c);
    u[2][x] = 0.5f * (a - b + c);
    u[3][x] = c;
  }
  for (int y = 0; y < 4; ++y) {
    std::uint16_t* const row = to + 4 * y * plane;
    store_row(u[y][0], row);
    store_row(0.5f * (u[y][0] + u[y][1] + u[y][2]), row + plane);
    store_row(0.5f * (u[y][0] - u[y][1] + u[y][2]), row + 2 * plane);
    store_row(u[y][2], row + 3 * plane);
  }
}

// G^T u G of 16 filters: from 16 planes to 9 rows.
TASUKI_ROUNDING void transform_filter_slopes(const float* from, std::int64_t plane, float* g) {
  Row u[3][4];
  for (int x = 0; x < 4; ++x) {
    const Row b = load_row(from + (4 + x) * plane), c = load_row(from + (8 + x) * plane);
    u[0][x] = load_row(from + x * plane) + 0.5f * (b + c);
    u[1][x] = 0.5f * (b - c);
    u[2][x] = 0.5f * (b + c) + load_row(from + (12 + x) * plane);
  }
  for (int y = 0; y < 3; ++y) {
    const Row half_sum = 0.5f * (u[y][1] + u[y][2]);
    const Row rows[3] = {u[y][0] + half_sum, 0.5f * (u[y][1] - u[y][2]), half_sum + u[y][3]};
    std::memcpy(g + y * 3 * lanes, rows, sizeof rows);
  }
}

// --- images as tiles ---

// The tiles of 2 x 2 pixels of all images of this shape, numbered image by image and row by row.
struct Tiles {
  std::int64_t images, height, width;  // of an image, in tiles

  explicit Tiles(const Shape& shape)
      : images(shape[0]), height((shape[2] + 1) / tile), width((shape[3] + 1) / tile) {}
  std::int64_t count() const { return images * height * width; }

  // Neighbours in a row of an image: `first` counts from where the caller begins.
  struct Run {
    std::int64_t first, image, top, left, length;
  };
  // Calls body(Run) for the runs among these tiles, on several threads.
  template <class Body>
  void for_each_run(std::int64_t begin, std::int64_t end, const Body& body) const {
    parallel_for(end - begin, 16, [&](std::int64_t first, std::int64_t last) {
      while (first < last) {
        const std::int64_t at = begin + first, column = at % width;
        const std::int64_t length = std::min(width - column, last - first);
        body(Run{first, at / (height * width), at / width % height * tile, column * tile, length});
        first += length;
      }
    });
  }
};

// The block of 16 channels from `channel` on of an image in blocks.
Pixels pixels_of(const Tensor& images, std::int64_t image, std::int64_t channel) {
  const Shape& shape = images.shape();
  const std::int64_t size = shape[2] * shape[3];
  return {static_cast<std::uint16_t*>(images.raw()) + (image * shape[1] + channel) * size, shape[2],
          shape[3]};
}

// As many tiles at once as `bytes` of each fit in half of a usual second cache; whatever the number
// of threads, because sums of filters' gradients are made of that many.
std::int64_t tiles_at_once(std::int64_t bytes) {
  constexpr std::int64_t cache = 1 << 19;
  return std::max<std::int64_t>(cache / bytes / lanes, 2) * lanes;
}

// 16 matrices of tiles (or channels) x channels.
Tensor matrices(std::int64_t rows, std::int64_t columns, DType type) {
  return Tensor::empty({planes, rows, columns}, type);
}
// The same memory for `rows` rows, at most as many as there are.
Tensor with_rows(const Tensor& all, std::int64_t rows) {
  return {all.storage(), all.offset(), {planes, rows, all.shape()[2]}, all.dtype()};
}

// --- filters ---

// The place of weight k of the filter from channel `in` to channel `out` in plain memory. With
// `is_backward` the filters of the data's gradient: turned, and with the channels exchanged.
struct FilterPlaces {
  std::int64_t in, out;
  bool is_backward;
  std::int64_t operator()(std::int64_t from, std::int64_t to, int k) const {
    return is_backward ? (from * out + to) * 9 + 8 - k : (to * in + from) * 9 + k;
  }
};

// 16 matrices of in x out.
Tensor transformed_filters(const Tensor& w, const FilterPlaces& places) {
  const Tensor plain = in_float32(w.plain());
  Tensor u = matrices(places.in, places.out, DType::bfloat16);
  const float* const weights = plain.data<float>();
  const std::int64_t step = places.in * places.out;
  parallel_for(places.in, 65536 / (places.out * 16) + 1, [&](std::int64_t begin, std::int64_t end) {
    float g[9 * lanes];
    for (std::int64_t in = begin; in < end; ++in)
      for (std::int64_t out = 0; out < places.out; out += lanes) {
        for (std::int64_t lane = 0; lane < lanes; ++lane)
          for (int k = 0; k < 9; ++k) g[k * lanes + lane] = weights[places(in, out + lane, k)];
        transform_filters(g, halves(u) + in * places.out + out, step);
      }
  });
  return u;
}

// The transformed images of a run, `pad_*` pixels further above and left, as rows of 16 matrices of
// `count` tiles.
void transform_run(const Tensor& images, const Tiles::Run& run, std::int64_t pad_h,
                   std::int64_t pad_w, const Tensor& v, std::int64_t count) {
  const std::int64_t in = images.shape()[1];
  for (std::int64_t c = 0; c < in; c += lanes)
    transform_images(pixels_of(images, run.image, c), run.top - pad_h, run.left - pad_w, run.length,
                     {halves(v) + run.first * in + c, in, count * in});
}

// x (in blocks) convolved with transformed filters, `pad_*` zeros above and left of it.
Tensor convolved(const Tensor& x, const Tensor& u, const Shape& result, const Tensor& b,
                 std::int64_t pad_h, std::int64_t pad_w) {
  Tensor y = empty_in(channel_blocks(result));
  const std::int64_t in = x.shape()[1], out = result[1];
  std::vector<float> bias(static_cast<std::size_t>(out));
  if (b) std::copy_n(b.data<float>(), out, bias.begin());
  const Tiles tiles(result);
  const std::int64_t most = std::min(
      tiles.count(), tiles_at_once(planes * (in * size_of(DType::bfloat16) + out * sizeof(float))));
  const auto compute = [&](std::int64_t first, std::int64_t last) {
    const Tensor v = matrices(most, in, DType::bfloat16), m = matrices(most, out, DType::float32);
    for (std::int64_t begin = first * most; begin < last * most; begin += most) {
      const std::int64_t count = std::min(most, tiles.count() - begin);
      tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
        transform_run(x, run, pad_h, pad_w, v, count);
      });
      multiply_rounded({with_rows(v, count)}, {u}, with_rows(m, count));
      tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
        for (std::int64_t c = 0; c < out; c += lanes)
          transform_results({m.data<float>() + run.first * out + c, out, count * out},
                            bias.data() + c, pixels_of(y, run.image, c), run.top, run.left,
                            run.length);
      });
    }
  };
  // Threads take whole groups of tiles if there are many; otherwise they share each group's work.
  const std::int64_t groups = (tiles.count() + most - 1) / most;
  constexpr std::int64_t groups_worth_a_thread = 4;
  if (groups >= groups_worth_a_thread * cpu_threads())
    parallel_for(groups, groups_worth_a_thread, compute);
  else
    compute(0, groups);
  return y;
}

}  // namespace

bool can_use_rounded_winograd(const ConvolutionGeometry& geometry) {
  const Conv2dOptions& o = geometry.options;
  return has_bfloat16_products() && o.groups == 1 && geometry.w[2] == 3 && geometry.w[3] == 3 &&
         o.stride_h == 1 && o.stride_w == 1 && o.dilation_h == 1 && o.dilation_w == 1 &&
         geometry.x[1] % lanes == 0 && geometry.y[1] % lanes == 0;
}

Tensor rounded_winograd_conv2d(const ConvolutionGeometry& geometry, const Tensor& x,
                               const Tensor& w, const Tensor& b) {
  const FilterPlaces places{geometry.x[1], geometry.y[1], false};
  return convolved(reordered(x, channel_blocks(geometry.x)), transformed_filters(w, places),
                   geometry.y, b, geometry.options.pad_h, geometry.options.pad_w);
}

Tensor rounded_winograd_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                      const Tensor& w) {
  const FilterPlaces places{geometry.y[1], geometry.x[1], true};
  return convolved(reordered(dy, channel_blocks(geometry.y)), transformed_filters(w, places),
                   geometry.x, {}, 2 - geometry.options.pad_h, 2 - geometry.options.pad_w);
}

Tensor rounded_winograd_backward_weights(const ConvolutionGeometry& geometry, const Tensor& x,
                                         const Tensor& dy) {
  const std::int64_t in = geometry.x[1], out = geometry.y[1];
  const Tensor images = reordered(x, channel_blocks(geometry.x)),
               slopes = reordered(dy, channel_blocks(geometry.y));
  const Tiles tiles(geometry.y);
  const std::int64_t most =
      std::min(tiles.count(), tiles_at_once(planes * (in + out) * size_of(DType::bfloat16)));
  const Tensor v = matrices(most, in, DType::bfloat16), d = matrices(most, out, DType::bfloat16);
  const Tensor du = matrices(in, out, DType::float32);
  for (std::int64_t begin = 0; begin < tiles.count(); begin += most) {
    const std::int64_t count = std::min(most, tiles.count() - begin);
    tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
      transform_run(images, run, geometry.options.pad_h, geometry.options.pad_w, v, count);
      for (std::int64_t c = 0; c < out; c += lanes)
        transform_slopes(pixels_of(slopes, run.image, c), run.top, run.left, run.length,
                         {halves(d) + run.first * out + c, out, count * out});
    });
    multiply_rounded({with_rows(v, count), /*transposed=*/true}, {with_rows(d, count)}, du,
                     {.accumulate = begin > 0});
  }
  Tensor dw = Tensor::empty(geometry.w);
  const FilterPlaces places{in, out, false};
  parallel_for(in, 65536 / (out * 16) + 1, [&](std::int64_t begin, std::int64_t end) {
    float g[9 * lanes];
    for (std::int64_t i = begin; i < end; ++i)
      for (std::int64_t o = 0; o < out; o += lanes) {
        transform_filter_slopes(du.data<float>() + i * out + o, in * out, g);
        for (std::int64_t lane = 0; lane < lanes; ++lane)
          for (int k = 0; k < 9; ++k)
            dw.data<float>()[places(i, o + lane, k)] = g[k * lanes + lane];
      }
  });
  return dw;
}

}  // namespace tasuki
