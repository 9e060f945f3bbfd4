#include "tensor/cpu/tile_convolution.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/tile_product.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

using Element = std::uint16_t;

constexpr std::int64_t lanes = TileKernels::panel;  // channels of a block, pixels of a tile
constexpr std::int64_t pair = 2 * lanes;            // channels or pixels of a block of sums
constexpr std::int64_t block_elements = TileKernels::block_elements;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Tensor zeros(std::int64_t count) {
  Tensor tensor = Tensor::empty({count}, DType::bfloat16);
  std::memset(tensor.raw(), 0, tensor.bytes());
  return tensor;
}

// A block of 16 channels of an image in blocks: rows of `width` pixels.
Element* block_of(const Tensor& images, std::int64_t image, std::int64_t channel) {
  const Shape& shape = images.shape();
  return halves(images) + (image * shape[1] + channel) * shape[2] * shape[3];
}

// Images side by side with zeros between them. Pixel (y, x) of the result is number
// position(image, y, x), and weight (i, j) meets the pixel of x that is offset(i, j) further on.
struct Places {
  std::int64_t height, width;  // of x
  std::int64_t pad_h, pad_w;
  std::int64_t kernel_h, kernel_w;
  std::int64_t out_height, out_width;  // of the result

  std::int64_t row() const { return width + pad_w; }
  std::int64_t image() const { return (height + pad_h) * row(); }
  std::int64_t position(std::int64_t index, std::int64_t y, std::int64_t x) const {
    return index * image() + y * row() + x;
  }
  std::int64_t offset(std::int64_t i, std::int64_t j) const { return i * row() + j; }
  // Of a pixel of x.
  std::int64_t place(std::int64_t index, std::int64_t y, std::int64_t x) const {
    return position(index, y + pad_h, x + pad_w);
  }
  // With what tiles read behind the last image, as much as one block of terms more.
  std::int64_t count(std::int64_t images) const {
    return round_up(images * image() + offset(kernel_h, kernel_w) + pair, pair) + pair;
  }
  std::int64_t weights() const { return kernel_h * kernel_w; }
};

Places forward_places(const ConvolutionGeometry& g) {
  return {g.x[2], g.x[3], g.options.pad_h, g.options.pad_w, g.w[2], g.w[3], g.y[2], g.y[3]};
}
// The data's gradient is a convolution of dy with turned filters.
Places backward_places(const ConvolutionGeometry& g) {
  return {
      g.y[2], g.y[3], g.w[2] - 1 - g.options.pad_h, g.w[3] - 1 - g.options.pad_w, g.w[2], g.w[3],
      g.x[2], g.x[3]};
}

// --- filters ---

// A matrix of outputs x inputs for each weight.
dnnl::memory::desc matrix_order(const Shape& w) {
  const std::int64_t size = w[0] * w[1];
  return {{w.begin(), w.end()},
          dnnl::memory::data_type::bf16,
          dnnl::memory::dims{w[1], 1, w[3] * size, size}};
}

// Right panels of 16 channels of results each: blocks of 32 terms, weight by weight and, for each,
// channel by channel.
Tensor packed_filters(const Tensor& w, bool is_backward) {
  const Tensor matrices = reordered(w, matrix_order(w.shape()));
  const std::int64_t outputs = w.shape()[0], inputs = w.shape()[1];
  const std::int64_t weights = w.shape()[2] * w.shape()[3], size = outputs * inputs;
  const std::int64_t terms = is_backward ? outputs : inputs, results = size / terms;
  Tensor packed = Tensor::empty({weights * size}, DType::bfloat16);
  parallel_for(results / lanes, 65536 / (terms * lanes * weights) + 1,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t panel = begin; panel < end; ++panel)
                   for (std::int64_t k = 0; k < weights; ++k) {
                     const Element* const matrix = halves(matrices) +
                                                   (is_backward ? weights - 1 - k : k) * size +
                                                   panel * lanes * (is_backward ? 1 : inputs);
                     tile_kernels()->pack_right(
                         {matrix, inputs, /*rows_are_sums=*/!is_backward}, lanes, terms,
                         halves(packed) + (panel * weights + k) * terms * lanes);
                   }
               });
  return packed;
}

// --- images ---

// Images [begin, end) as planes of 32 channels, at their places.
void place_pixels(const Tensor& images, std::int64_t begin, std::int64_t end, const Places& places,
                  std::int64_t plane, Element* to) {
  const std::int64_t channels = images.shape()[1];
  for (std::int64_t image = begin; image < end; ++image)
    for (std::int64_t c = 0; c < channels; c += pair) {
      const Element *first = block_of(images, image, c),
                    *second = block_of(images, image, c + lanes);
      for (std::int64_t y = 0; y < places.height; ++y) {
        Element* out = to + c / pair * plane + places.place(image - begin, y, 0) * pair;
        for (std::int64_t x = 0; x < places.width;
             ++x, out += pair, first += lanes, second += lanes) {
          std::memcpy(out, first, lanes * sizeof(Element));
          std::memcpy(out + lanes, second, lanes * sizeof(Element));
        }
      }
    }
}

// The tiles of 16 neighbouring places that cover the results of `images` images: where each begins,
// and the pixels of its places, negative for those between images. Pixels of an image are numbered
// from image_step times its number on.
struct Tiles {
  std::vector<std::int64_t> begins;
  std::vector<std::int32_t> pixels;

  Tiles(const Places& places, std::int64_t images, std::int64_t image_step) {
    const std::int64_t tiles_of_row = (places.out_width + lanes - 1) / lanes;
    const std::int64_t last =
        places.position(images - 1, places.out_height - 1, places.out_width - 1);
    const bool in_rows = images * places.out_height * tiles_of_row <= last / lanes + 1;
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      begins.push_back(begin);
      for (std::int64_t at = begin; at < begin + lanes; ++at) {
        const std::int64_t y = at % places.image() / places.row(), x = at % places.row();
        const bool is_pixel = at < end && y < places.out_height && x < places.out_width;
        pixels.push_back(is_pixel ? static_cast<std::int32_t>(at / places.image() * image_step +
                                                              y * places.out_width + x)
                                  : -1);
      }
    };
    if (in_rows)
      for (std::int64_t image = 0; image < images; ++image)
        for (std::int64_t y = 0; y < places.out_height; ++y)
          for (std::int64_t tile = 0; tile < tiles_of_row; ++tile)
            add(places.position(image, y, tile * lanes),
                places.position(image, y, places.out_width));
    else
      for (std::int64_t at = 0; at <= last; at += lanes) add(at, last + 1);
    // Tiles are taken in pairs: the last one's partner is itself, without results.
    if (begins.size() % 2 != 0) {
      begins.push_back(begins.back());
      pixels.insert(pixels.end(), lanes, -1);
    }
  }
};

// As many images as take about `bytes`.
std::int64_t images_at_once(std::int64_t images, std::int64_t bytes_of_image, std::int64_t bytes) {
  return std::clamp<std::int64_t>(bytes / bytes_of_image, 1, images);
}

Tensor convolved(const Tensor& x, const Tensor& filters, const Shape& result, const Tensor& b,
                 const Places& places) {
  constexpr std::int64_t packed_bytes = std::int64_t{1} << 18;
  const TileKernels& kernels = *tile_kernels();
  Tensor y = empty_in(channel_blocks(result));
  const std::int64_t images = result[0], in = x.shape()[1], out = result[1];
  std::vector<float> bias(static_cast<std::size_t>(out));
  if (b) std::copy_n(b.data<float>(), out, bias.begin());
  // Each thread has images; which ones are together changes no bit.
  const std::int64_t group = std::min(
      images_at_once(images, places.image() * in * static_cast<std::int64_t>(sizeof(Element)),
                     packed_bytes),
      (images + cpu_threads() - 1) / cpu_threads());
  const std::int64_t image_step = out / lanes * result[2] * result[3];
  const Tiles of_group(places, group, image_step);
  const Tiles of_rest(places, images % group == 0 ? group : images % group, image_step);
  const std::int64_t plane = places.count(group) * pair;
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < places.kernel_h; ++i)
    for (std::int64_t j = 0; j < places.kernel_w; ++j)
      for (std::int64_t c = 0; c < in; c += pair)
        offsets.push_back(c / pair * plane + places.offset(i, j) * pair);
  const auto blocks = static_cast<std::int64_t>(offsets.size());

  parallel_for((images + group - 1) / group, 1, [&](std::int64_t first, std::int64_t last) {
    const Tensor planes = zeros(in / pair * plane);
    alignas(64) float sums[2][pair * pair];
    float *now = sums[0], *next = sums[1];
    TilePixels before{};
    kernels.begin();
    for (std::int64_t begin = first * group; begin < std::min(last * group, images);
         begin += group) {
      const std::int64_t end = std::min(begin + group, images);
      const Tiles& tiles = end - begin == group ? of_group : of_rest;
      place_pixels(x, begin, end, places, plane, halves(planes));
      for (std::int64_t c = 0; c < out; c += pair) {
        const Element* const right = halves(filters) + c / lanes * blocks * block_elements;
        for (std::size_t tile = 0; tile < tiles.begins.size(); tile += 2) {
          kernels.sum({.left = {halves(planes) + tiles.begins[tile] * pair,
                                halves(planes) + tiles.begins[tile + 1] * pair},
                       .left_step = pair,
                       .left_offsets = offsets.data(),
                       .right = {right, right + blocks * block_elements},
                       .right_step = block_elements,
                       .blocks = blocks,
                       .sums = now,
                       .sums_step = pair,
                       .adds = false},
                      before);
          before = {.count = pair,
                    .sums = now,
                    .pixels = tiles.pixels.data() + tile * lanes,
                    .blocks = {block_of(y, begin, c), block_of(y, begin, c + lanes)},
                    .bias = bias.data() + c};
          std::swap(now, next);
        }
      }
    }
    kernels.write_pixels(before);
    kernels.end();
  });
  return y;
}

// --- gradients of filters ---

// Images [begin, end) of a block of channels at `place(image, y)`, rows of pixels.
template <class Place>
void place_rows(const Tensor& images, std::int64_t begin, std::int64_t end, std::int64_t channel,
                const Place& place, Element* to) {
  const std::int64_t height = images.shape()[2], width = images.shape()[3] * lanes;
  for (std::int64_t image = begin; image < end; ++image) {
    const Element* from = block_of(images, image, channel);
    for (std::int64_t y = 0; y < height; ++y, from += width)
      std::memcpy(to + place(image - begin, y) * lanes, from,
                  static_cast<std::size_t>(width) * sizeof(Element));
  }
}

// Writes 32 x 32 filters from blocks of 32 inputs x 32 outputs, one block for each weight. An
// output's filters begin `step` numbers after the previous output's.
void write_gradients(const float* sums, std::int64_t weights, float* to, std::int64_t step) {
  for (std::int64_t o = 0; o < pair; ++o, to += step)
    for (std::int64_t i = 0; i < pair; ++i)
      for (std::int64_t k = 0; k < weights; ++k)
        to[i * weights + k] = sums[(k * pair + i) * pair + o];
}

}  // namespace

bool can_use_tile_convolution(const ConvolutionGeometry& geometry) {
  const Conv2dOptions& o = geometry.options;
  return has_tiles() && o.groups == 1 && o.stride_h == 1 && o.stride_w == 1 && o.dilation_h == 1 &&
         o.dilation_w == 1 && o.pad_h < geometry.w[2] && o.pad_w < geometry.w[3] &&
         geometry.x[1] % pair == 0 && geometry.y[1] % pair == 0;
}

Tensor tile_conv2d(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& w,
                   const Tensor& b) {
  const Tensor filters = packed_filters(w, false);
  return convolved(reordered(x, channel_blocks(geometry.x)), filters, geometry.y, b,
                   forward_places(geometry));
}

Tensor tile_conv2d_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                 const Tensor& w) {
  const Tensor filters = packed_filters(w, true);
  return convolved(reordered(dy, channel_blocks(geometry.y)), filters, geometry.x, {},
                   backward_places(geometry));
}

// Sums run over the places of x, 32 at a time. The dy that meets them with a weight lies as many
// positions earlier as that weight's offset, in pairs that begin at even or at odd positions.
Tensor tile_conv2d_backward_weights(const ConvolutionGeometry& geometry, const Tensor& x,
                                    const Tensor& dy) {
  // Places at once: sums that are kept in memory meanwhile are read and written once for each.
  constexpr std::int64_t most_places = 1200;
  const TileKernels& kernels = *tile_kernels();
  const Places places = forward_places(geometry);
  const std::int64_t in = geometry.x[1], out = geometry.y[1], images = geometry.x[0];
  const Tensor from = reordered(x, channel_blocks(geometry.x)),
               slopes = reordered(dy, channel_blocks(geometry.y));
  const std::int64_t group = images_at_once(images, places.image(), most_places);
  const std::int64_t weights = places.weights();
  // Zeros before and behind all dy, for the weights that meet padding.
  const std::int64_t margin = round_up(places.offset(places.kernel_h, places.kernel_w), 2);
  const auto terms_of = [&](std::int64_t count) {
    return round_up(places.place(count - 1, places.height, 0), pair);
  };
  const std::int64_t terms = terms_of(group), row = round_up(margin + terms, pair) + pair;
  const Tensor left = Tensor::empty({in * terms}, DType::bfloat16),
               right = Tensor::empty({out * 2 * row}, DType::bfloat16),
               sums = Tensor::empty({in * out * weights});
  // Blocks of 32 x 32 sums; all weights of a filter together.
  const auto sums_of = [&](std::int64_t i, std::int64_t o) {
    return (i / pair * (out / pair) + o / pair) * weights * pair * pair;
  };
  std::vector<std::int64_t> offsets;
  for (std::int64_t at = 0; at < terms; at += pair) offsets.push_back(at * lanes);

  for (std::int64_t begin = 0; begin < images; begin += group) {
    const std::int64_t end = std::min(begin + group, images), used = terms_of(end - begin);
    parallel_for(in / lanes, 1, [&](std::int64_t first, std::int64_t last) {
      const Tensor rows = zeros(terms * lanes);
      for (std::int64_t c = first * lanes; c < last * lanes; c += lanes) {
        place_rows(
            from, begin, end, c,
            [&](std::int64_t image, std::int64_t y) { return places.place(image, y, 0); },
            halves(rows));
        kernels.pack_left({halves(rows), lanes, false}, lanes, used, halves(left) + c * terms);
      }
    });
    parallel_for(out / lanes, 1, [&](std::int64_t first, std::int64_t last) {
      const Tensor rows = zeros((row + 1) * lanes);
      for (std::int64_t c = first * lanes; c < last * lanes; c += lanes) {
        place_rows(
            slopes, begin, end, c,
            [&](std::int64_t image, std::int64_t y) {
              return margin + places.position(image, y, 0);
            },
            halves(rows));
        for (const std::int64_t odd : {0, 1})
          kernels.pack_right({halves(rows) + odd * lanes, lanes, false}, lanes, row,
                             halves(right) + (2 * c + odd * lanes) * row);
      }
    });
    const std::int64_t out_pairs = out / pair;
    parallel_for(in / pair * out_pairs, 1, [&](std::int64_t first, std::int64_t last) {
      kernels.begin();
      for (std::int64_t each = first; each < last; ++each)
        for (std::int64_t k = 0; k < weights; ++k) {
          const std::int64_t i = each / out_pairs * pair, o = each % out_pairs * pair;
          const std::int64_t position =
              margin - places.offset(k / places.kernel_w, k % places.kernel_w);
          const std::int64_t odd = position % 2;
          const Element* const tile = halves(left) + i * terms;
          const Element* const block =
              halves(right) + (2 * o + odd * lanes) * row + (position - odd) * lanes;
          kernels.sum({.left = {tile, tile + lanes * terms},
                       .left_step = pair,
                       .left_offsets = offsets.data(),
                       .right = {block, block + 2 * lanes * row},
                       .right_step = block_elements,
                       .blocks = used / pair,
                       .sums = sums.data<float>() + sums_of(i, o) + k * pair * pair,
                       .sums_step = pair,
                       .adds = begin > 0},
                      {});
        }
      kernels.end();
    });
  }
  Tensor dw = Tensor::empty(geometry.w);
  parallel_for(out / pair, 65536 / (in * pair * weights) + 1,
               [&](std::int64_t first, std::int64_t last) {
                 for (std::int64_t o = first * pair; o < last * pair; o += pair)
                   for (std::int64_t i = 0; i < in; i += pair)
                     write_gradients(sums.data<float>() + sums_of(i, o), weights,
                                     dw.data<float>() + (o * in + i) * weights, in * weights);
               });
  return dw;
}

}  // namespace tasuki
