#include "tensor/cpu/rounded_winograd.hpp"

#include <algorithm>
#include <vector>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/pair_kernels.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/winograd_kernels.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

using namespace winograd;

constexpr std::int64_t lanes = 16;  // channels of a block

// --- images as tiles ---

// The tiles of all images of this shape, numbered image by image and row by row. In pairs, rows
// have even numbers of tiles; the last one may lie outside of the image.
struct Tiles {
  std::int64_t images, height, width;  // of an image, in tiles
  std::int64_t together;               // that runs do not part

  Tiles(const Shape& shape, TileOrder order)
      : images(shape[0]),
        height((shape[2] + tile_height - 1) / tile_height),
        together(order == TileOrder::pairs ? 2 : 1) {
    const std::int64_t columns = tile_width * together;
    width = (shape[3] + columns - 1) / columns * together;
  }
  std::int64_t count() const { return images * height * width; }

  // Neighbours in a row of an image, whose first pixel lies at (top, left); `first` counts from
  // where the caller begins.
  struct Run {
    std::int64_t first, image, top, left, length;
  };
  // Calls body(Run) for the runs among these tiles, on several threads.
  template <class Body>
  void for_each_run(std::int64_t begin, std::int64_t end, const Body& body) const {
    parallel_for((end - begin) / together, 16, [&](std::int64_t first, std::int64_t last) {
      first *= together;
      last *= together;
      while (first < last) {
        const std::int64_t at = begin + first, column = at % width;
        const std::int64_t length = std::min(width - column, last - first);
        body(Run{first, at / (height * width), at / width % height * tile_height,
                 column * tile_width, length});
        first += length;
      }
    });
  }
};

// A run's pixels, or those `pad_*` further above and left, in the block of 16 channels from
// `channel` on.
TileRow row_of(const Tensor& images, const Tiles::Run& run, std::int64_t channel,
               std::int64_t pad_h = 0, std::int64_t pad_w = 0) {
  const Shape& shape = images.shape();
  const std::int64_t size = shape[2] * shape[3];
  return {{halves(images) + (run.image * shape[1] + channel) * size, shape[2], shape[3]},
          run.top - pad_h,
          run.left - pad_w,
          run.length};
}

// As many tiles at once as `bytes` of each fit in a usual second cache, but enough to pay for
// reading all filters, or their gradients; whatever the number of threads, because sums of filters'
// gradients are made of that many.
std::int64_t tiles_at_once(std::int64_t bytes) {
  constexpr std::int64_t cache = 1 << 20, least = 64;
  return std::max<std::int64_t>(cache / bytes / lanes * lanes, least);
}

// A matrix of tiles (or channels) x channels for each plane.
Tensor matrices(std::int64_t rows, std::int64_t columns, DType type) {
  return Tensor::empty({planes, rows, columns}, type);
}

// Calls body(plane), on several threads.
template <class Body>
void for_each_plane(const Body& body) {
  parallel_for(planes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) body(plane);
  });
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

// Matrices of in x out, in pairs of rows.
Tensor transformed_filters(const Tensor& w, const FilterPlaces& places) {
  const Tensor plain = in_float32(w.plain());
  Tensor u = matrices(places.in, places.out, DType::bfloat16);
  const float* const weights = plain.data<float>();
  const std::int64_t step = places.in * places.out;
  // 16 x 16 filters at a time, whose weights of 16 rows lie side by side.
  const auto transform_block = [&](std::int64_t first_in, std::int64_t out) {
    float g[2][filter_size * filter_size][lanes];
    for (std::int64_t in = first_in; in < first_in + lanes; in += 2) {
      for (int i = 0; i < 2; ++i)
        for (int lane = 0; lane < lanes; ++lane)
          for (int k = 0; k < filter_size * filter_size; ++k)
            g[i][k][lane] = weights[places(in + i, out + lane, k)];
      transform_filters(&g[0][0][0], halves(u) + in * places.out + 2 * out, step);
    }
  };
  parallel_for(places.in / lanes, 256 / places.out + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t block = begin; block < end; ++block)
      for (std::int64_t out = 0; out < places.out; out += lanes)
        transform_block(block * lanes, out);
  });
  return u;
}

// Where 16 channels of a run's tiles begin, in matrices of `count` tiles x `channels`.
Planes<std::uint16_t> planes_of(const Tensor& all, TileOrder order, const Tiles::Run& run,
                                std::int64_t channel, std::int64_t channels, std::int64_t count) {
  const std::int64_t together = order == TileOrder::pairs ? 2 : 1;
  return {halves(all) + run.first * channels + together * channel, together * channels,
          count * channels};
}

// The transformed images of a run, `pad_*` pixels further above and left, in matrices of `count`
// tiles.
void transform_run(const Tensor& images, const Tiles::Run& run, std::int64_t pad_h,
                   std::int64_t pad_w, TileOrder order, const Tensor& v, std::int64_t count) {
  const std::int64_t in = images.shape()[1];
  for (std::int64_t c = 0; c < in; c += lanes)
    transform_images(row_of(images, run, c, pad_h, pad_w), order,
                     planes_of(v, order, run, c, in, count));
}

// x (in blocks) convolved with transformed filters, `pad_*` zeros above and left of it.
Tensor convolved(const Tensor& x, const Tensor& u, const Shape& result, const Tensor& b,
                 std::int64_t pad_h, std::int64_t pad_w) {
  Tensor y = empty_in(channel_blocks(result));
  const std::int64_t in = x.shape()[1], out = result[1];
  std::vector<float> bias(static_cast<std::size_t>(out));
  if (b) std::copy_n(b.data<float>(), out, bias.begin());
  const Tiles tiles(result, TileOrder::single);
  const std::int64_t most = std::min(
      tiles.count(), tiles_at_once(planes * (in * size_of(DType::bfloat16) + out * sizeof(float))));
  const auto compute = [&](std::int64_t first, std::int64_t last) {
    const Tensor v = matrices(most, in, DType::bfloat16), m = matrices(most, out, DType::float32);
    for (std::int64_t begin = first * most; begin < last * most; begin += most) {
      const std::int64_t count = std::min(most, tiles.count() - begin);
      tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
        transform_run(x, run, pad_h, pad_w, TileOrder::single, v, count);
      });
      for_each_plane([&](std::int64_t plane) {
        multiply_pairs({.m = count,
                        .n = out,
                        .pairs = in / 2,
                        .a = halves(v) + plane * count * in,
                        .a_row = in,
                        .a_pair = 2,
                        .b = halves(u) + plane * in * out,
                        .b_pair = 2 * out,
                        .c = m.data<float>() + plane * count * out,
                        .c_step = out});
      });
      tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
        for (std::int64_t c = 0; c < out; c += lanes)
          transform_results({m.data<float>() + run.first * out + c, out, count * out},
                            bias.data() + c, row_of(y, run, c));
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
  const Tiles tiles(geometry.y, TileOrder::pairs);
  const std::int64_t most =
      std::min(tiles.count(), tiles_at_once(planes * (in + out) * size_of(DType::bfloat16)));
  const Tensor v = matrices(most, in, DType::bfloat16), d = matrices(most, out, DType::bfloat16);
  const Tensor du = matrices(in, out, DType::float32);
  for (std::int64_t begin = 0; begin < tiles.count(); begin += most) {
    const std::int64_t count = std::min(most, tiles.count() - begin);
    tiles.for_each_run(begin, begin + count, [&](const Tiles::Run& run) {
      transform_run(images, run, geometry.options.pad_h, geometry.options.pad_w, TileOrder::pairs,
                    v, count);
      for (std::int64_t c = 0; c < out; c += lanes)
        transform_slopes(row_of(slopes, run, c),
                         planes_of(d, TileOrder::pairs, run, c, out, count));
    });
    for_each_plane([&](std::int64_t plane) {
      multiply_pairs({.m = in,
                      .n = out,
                      .pairs = count / 2,
                      .a = halves(v) + plane * count * in,
                      .a_row = 2,
                      .a_pair = 2 * in,
                      .b = halves(d) + plane * count * out,
                      .b_pair = 2 * out,
                      .c = du.data<float>() + plane * in * out,
                      .c_step = out,
                      .accumulate = begin > 0});
    });
  }
  Tensor dw = Tensor::empty(geometry.w);
  const FilterPlaces places{in, out, false};
  parallel_for(in, 65536 / (out * 16) + 1, [&](std::int64_t begin, std::int64_t end) {
    float g[filter_size * filter_size][lanes];
    for (std::int64_t from = begin; from < end; ++from)
      for (std::int64_t to = 0; to < out; to += lanes) {
        transform_filter_slopes(du.data<float>() + from * out + to, in * out, &g[0][0]);
        for (int lane = 0; lane < lanes; ++lane)
          for (int k = 0; k < filter_size * filter_size; ++k)
            dw.data<float>()[places(from, to + lane, k)] = g[k][lane];
      }
  });
  return dw;
}

}  // namespace tasuki
