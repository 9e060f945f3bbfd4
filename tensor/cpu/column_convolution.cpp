#include "tensor/cpu/column_convolution.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/half.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t lanes = 16;  // channels of a block

template <class Element>
std::unique_ptr<Element[]> buffer(std::int64_t count) {  // NOLINT(modernize-avoid-c-arrays)
  return std::make_unique_for_overwrite<Element[]>(      // NOLINT(modernize-avoid-c-arrays)
      static_cast<std::size_t>(count));
}

// Copies of a few elements, faster than a call of memcpy.
inline void copy_run(std::uint16_t* to, const std::uint16_t* from, std::int64_t count) {
  constexpr std::int64_t step = 8;
  if (count < step) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (std::int64_t i = 0; i + step < count; i += step)
    std::memcpy(to + i, from + i, step * sizeof *to);
  std::memcpy(to + count - step, from + count - step, step * sizeof *to);
}

// --- columns ---

// The images as rows of pixels with their padding, and where the pixels of windows lie in them.
class Columns {
 public:
  explicit Columns(const ConvolutionGeometry& geometry)
      : g_(geometry),
        height_(g_.x[2] + 2 * g_.options.pad_h),
        row_((g_.x[3] + 2 * g_.options.pad_w) * g_.x[1]) {}

  std::int64_t length() const { return g_.w[1] * g_.w[2] * g_.w[3]; }  // of a column
  std::int64_t image() const { return height_ * row_; }                // elements of a padded one
  std::int64_t lines() const { return g_.x[0] * g_.y[2]; }             // rows of all results
  std::int64_t pixels() const { return g_.y[3]; }                      // results of a line

  // Lines to be computed at once: as many as fit in a usual second cache with their columns and
  // sums, but at least 256 results. Each product reorders the filters or their gradients, which
  // would take longer than a product of fewer results.
  std::int64_t lines_at_once() const {
    constexpr std::int64_t cache = 1 << 19, least = 256;
    const std::int64_t bytes = 2 * length() + 6 * g_.w[0];
    const std::int64_t results = std::max(cache / bytes, least);
    return std::clamp<std::int64_t>((results + pixels() - 1) / pixels(), 1, lines());
  }

  // All images with zeros around them; x itself where there is no padding.
  Tensor padded(const Tensor& x) const {
    Tensor images = reordered(x, channels_last(g_.x));
    const Conv2dOptions& o = g_.options;
    if (o.pad_h == 0 && o.pad_w == 0) return images;
    Tensor made = Tensor::empty({g_.x[0], image()}, DType::bfloat16);
    const std::int64_t width = g_.x[3] * g_.x[1], left = o.pad_w * g_.x[1];
    parallel_for(g_.x[0], elementwise_grain / image() + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   std::fill(halves(made) + begin * image(), halves(made) + end * image(), 0);
                   for (std::int64_t n = begin; n < end; ++n)
                     for (std::int64_t i = 0; i < g_.x[2]; ++i)
                       std::copy_n(halves(images) + (n * g_.x[2] + i) * width, width,
                                   halves(made) + n * image() + (i + o.pad_h) * row_ + left);
                 });
    return made;
  }

  // Calls visit(offset in a padded image, offset in a column, length) for the runs of neighbouring
  // elements that a window at pixel j of row i covers.
  template <class Visit>
  void for_runs(std::int64_t i, std::int64_t j, const Visit& visit) const {
    const Conv2dOptions& o = g_.options;
    const std::int64_t in = g_.x[1], width = g_.w[3];
    const bool is_dense = o.dilation_w == 1;
    const std::int64_t runs = is_dense ? 1 : width, run = is_dense ? width * in : in;
    for (std::int64_t a = 0; a < g_.w[2]; ++a) {
      const std::int64_t from = (i * o.stride_h + a * o.dilation_h) * row_ + j * o.stride_w * in;
      for (std::int64_t b = 0; b < runs; ++b)
        visit(from + b * o.dilation_w * in, (a * width + b) * in, run);
    }
  }

  // The columns of lines [begin, end).
  void gather(const Tensor& padded, std::int64_t begin, std::int64_t end,
              std::uint16_t* result) const {
    parallel_for(end - begin, 1, [&](std::int64_t first, std::int64_t last) {
      std::uint16_t* to = result + first * pixels() * length();
      for (std::int64_t line = begin + first; line < begin + last; ++line) {
        const std::uint16_t* const from = halves(padded) + line / g_.y[2] * image();
        for (std::int64_t j = 0; j < pixels(); ++j, to += length())
          for_runs(line % g_.y[2], j, [&](std::int64_t at, std::int64_t place, std::int64_t run) {
            copy_run(to + place, from + at, run);
          });
      }
    });
  }
  // Adds the columns of row i of the results to a padded image.
  void spread(const float* columns, std::int64_t i, float* to) const {
    for (std::int64_t j = 0; j < pixels(); ++j, columns += length())
      for_runs(i, j, [&](std::int64_t at, std::int64_t place, std::int64_t run) {
        for (std::int64_t k = 0; k < run; ++k) to[at + k] += columns[place + k];
      });
  }
  // Moves a padded image's pixels to its beginning.
  void remove_padding(float* image) const {
    const Conv2dOptions& o = g_.options;
    const std::int64_t width = g_.x[3] * g_.x[1];
    if (o.pad_h == 0 && o.pad_w == 0) return;
    for (std::int64_t i = 0; i < g_.x[2]; ++i)
      std::copy_n(image + (i + o.pad_h) * row_ + o.pad_w * g_.x[1], width, image + i * width);
  }

 private:
  const ConvolutionGeometry& g_;
  std::int64_t height_, row_;
};

// --- rows of pixels ---

// Calls visit(first element of 16 channels of the line's first pixel, place among the channels) for
// images in blocks; pixels are 16 elements apart.
template <class Visit>
void for_blocks(const Tensor& images, std::int64_t line, const Visit& visit) {
  const Shape& shape = images.shape();
  const std::int64_t image = line / shape[2], row = line % shape[2];
  for (std::int64_t c = 0; c < shape[1]; c += lanes)
    visit(halves(images) + ((image * shape[1] + c) * shape[2] + row * lanes) * shape[3], c);
}

// Lines [begin, end) of images in the rounded_order() of their shape, as rows of all channels:
// where they lie, or copied to `room`.
const std::uint16_t* read_lines(const Tensor& images, std::int64_t begin, std::int64_t end,
                                std::uint16_t* room) {
  const std::int64_t width = images.shape()[3], channels = images.shape()[1];
  if (!has_full_blocks(images.shape())) return halves(images) + begin * width * channels;
  for (std::int64_t line = begin; line < end; ++line)
    for_blocks(images, line, [&](const std::uint16_t* from, std::int64_t c) {
      std::uint16_t* to = room + (line - begin) * width * channels + c;
      for (std::int64_t j = 0; j < width; ++j)
        std::memcpy(to + j * channels, from + j * lanes, lanes * sizeof *to);
    });
  return room;
}

// The opposite, from sums, which are rounded; `room` has as many elements.
void write_lines(const Tensor& images, std::int64_t begin, std::int64_t end, const float* sums,
                 std::uint16_t* room) {
  static const HalfFormat format = half_format(DType::bfloat16);
  const std::int64_t width = images.shape()[3], channels = images.shape()[1];
  const bool is_blocked = has_full_blocks(images.shape());
  format.narrow(is_blocked ? room : halves(images) + begin * width * channels, sums,
                (end - begin) * width * channels);
  for (std::int64_t line = begin; line < end && is_blocked; ++line)
    for_blocks(images, line, [&](std::uint16_t* to, std::int64_t c) {
      const std::uint16_t* const from = room + (line - begin) * width * channels + c;
      for (std::int64_t j = 0; j < width; ++j)
        std::memcpy(to + j * lanes, from + j * channels, lanes * sizeof *to);
    });
}

// Filters as columns lie, O x KH x KW x I.
dnnl::memory::desc filter_rows(const Shape& w, dnnl::memory::data_type type) {
  return {{w.begin(), w.end()}, type, dnnl::memory::format_tag::ohwi};
}
Tensor rounded_filters(const Tensor& w) {
  return reordered(w, filter_rows(w.shape(), dnnl::memory::data_type::bf16));
}

}  // namespace

bool can_use_columns(const ConvolutionGeometry& geometry) {
  return has_bfloat16_products() && geometry.options.groups == 1 && geometry.w[1] > 4 &&
         geometry.x.count() > 0;
}

bool columns_may_pay(const ConvolutionGeometry& geometry) {
  const std::int64_t in = geometry.w[1], out = geometry.w[0];
  const auto filled = [](std::int64_t channels) { return (channels + lanes - 1) / lanes * lanes; };
  return can_use_columns(geometry) && 5 * in * out <= 4 * filled(in) * filled(out);
}

Tensor column_conv2d(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& w,
                     const Tensor& b) {
  const Columns columns(geometry);
  const Tensor images = columns.padded(x), filters = rounded_filters(w);
  Tensor y = empty_in(rounded_order(geometry.y));
  const std::int64_t out = geometry.w[0], length = columns.length();
  // Results of a few images still occupy all threads.
  const std::int64_t share = (columns.lines() + cpu_threads() - 1) / cpu_threads();
  const std::int64_t most = std::min(columns.lines_at_once(), share);
  const std::int64_t blocks = (columns.lines() + most - 1) / most;
  parallel_for(blocks, 1, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t rows = most * columns.pixels();
    const auto gathered = buffer<std::uint16_t>(rows * length),
               room = buffer<std::uint16_t>(rows * out);
    const auto sums = buffer<float>(rows * out);
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t begin = block * most, end = std::min(begin + most, columns.lines());
      const std::int64_t count = (end - begin) * columns.pixels();
      columns.gather(images, begin, end, gathered.get());
      if (b) repeat_row_kernel(b.data<float>(), sums.get(), count, out);
      multiply_rounded_block(count, out, length, {gathered.get(), length},
                             {halves(filters), length, /*transposed=*/true}, sums.get(), out, 1,
                             b.defined());
      write_lines(y, begin, end, sums.get(), room.get());
    }
  });
  return y;
}

Tensor column_conv2d_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                   const Tensor& w) {
  const Columns columns(geometry);
  const Tensor slopes = reordered(dy, rounded_order(geometry.y)), filters = rounded_filters(w);
  Tensor dx = empty_in(rounded_order(geometry.x));
  const std::int64_t out = geometry.w[0], length = columns.length();
  const std::int64_t height = geometry.y[2], most = columns.lines_at_once();
  parallel_for(geometry.x[0], 1, [&](std::int64_t first, std::int64_t last) {
    const std::int64_t rows = most * columns.pixels();
    const auto sums = buffer<float>(rows * length), image = buffer<float>(columns.image());
    const auto room = buffer<std::uint16_t>(std::max(rows * out, geometry.x.count_per_item()));
    for (std::int64_t begin = first * height; begin < last * height; begin += most) {
      const std::int64_t end = std::min(begin + most, last * height);
      const std::uint16_t* const from = read_lines(slopes, begin, end, room.get());
      multiply_rounded_block((end - begin) * columns.pixels(), length, out, {from, out},
                             {halves(filters), length}, sums.get(), length, 1, false);
      for (std::int64_t line = begin; line < end; ++line) {
        if (line % height == 0) std::fill_n(image.get(), columns.image(), 0.0f);
        columns.spread(sums.get() + (line - begin) * columns.pixels() * length, line % height,
                       image.get());
        if (line % height < height - 1) continue;
        columns.remove_padding(image.get());
        const std::int64_t to = line / height * geometry.x[2];
        write_lines(dx, to, to + geometry.x[2], image.get(), room.get());
      }
    }
  });
  return dx;
}

Tensor column_conv2d_backward_weights(const ConvolutionGeometry& geometry, const Tensor& x,
                                      const Tensor& dy) {
  const Columns columns(geometry);
  const Tensor images = columns.padded(x), slopes = reordered(dy, rounded_order(geometry.y));
  const std::int64_t out = geometry.w[0], length = columns.length();
  // Groups that threads share, unless their sums would take more memory than they save time: then
  // all threads share each product.
  constexpr std::int64_t most_groups = 16, most_sums = 1 << 21;
  const std::int64_t groups =
      std::min(geometry.x[0], std::clamp<std::int64_t>(most_sums / (out * length), 1, most_groups));
  const std::int64_t most = columns.lines_at_once(), rows = most * columns.pixels();
  Tensor dw = empty_in(filter_rows(geometry.w, dnnl::memory::data_type::f32));
  const Tensor others = Tensor::empty({groups - 1, out, length});
  const auto sums_of = [&](std::int64_t group) {
    return group == 0 ? static_cast<float*>(dw.raw())
                      : others.data<float>() + (group - 1) * out * length;
  };
  parallel_for(groups, 1, [&](std::int64_t first, std::int64_t last) {
    const auto gathered = buffer<std::uint16_t>(rows * length),
               room = buffer<std::uint16_t>(rows * out);
    for (std::int64_t group = first; group < last; ++group) {
      const auto line_of = [&](std::int64_t g) {
        return g * geometry.x[0] / groups * geometry.y[2];
      };
      const std::int64_t stop = line_of(group + 1);
      for (std::int64_t begin = line_of(group); begin < stop; begin += most) {
        const std::int64_t end = std::min(begin + most, stop);
        const std::uint16_t* const from = read_lines(slopes, begin, end, room.get());
        columns.gather(images, begin, end, gathered.get());
        // oneDNN may have threads compute parts of longer sums.
        constexpr std::int64_t most_terms = 1024;
        const std::int64_t terms = (end - begin) * columns.pixels();
        for (std::int64_t term = 0; term < terms; term += most_terms)
          multiply_rounded_block(out, length, std::min(most_terms, terms - term),
                                 {from + term * out, out, /*transposed=*/true},
                                 {gathered.get() + term * length, length}, sums_of(group), length,
                                 1, begin > line_of(group) || term > 0);
      }
    }
  });
  for (std::int64_t group = 1; group < groups; ++group)
    accumulate_kernel(sums_of(0), sums_of(group), 1, out * length);
  return dw;
}

}  // namespace tasuki
