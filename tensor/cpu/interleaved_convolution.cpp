// Convolutions of interleaved images.
#include <algorithm>
#include <vector>

#include "tensor/cpu/interleaved.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

// Divides `count` items into the fewest parts of at most `most`, all of nearly the same size: where
// part i begins.
class Parts {
 public:
  Parts(std::int64_t count, std::int64_t most) : count_(count), parts_((count + most - 1) / most) {}
  std::int64_t size() const { return parts_; }
  std::int64_t largest() const { return (count_ + parts_ - 1) / parts_; }
  std::int64_t begin(std::int64_t part) const { return part * count_ / parts_; }
  std::int64_t size(std::int64_t part) const { return begin(part + 1) - begin(part); }

 private:
  std::int64_t count_, parts_;
};

// For each pixel of the result, the products that are summed.
struct Windows {
  std::vector<InterleavedTap> taps;
  std::vector<std::size_t> begins = {0};  // pixel i: taps [begins[i], begins[i + 1])

  void add(std::int64_t line, std::int64_t tap) {
    taps.push_back({static_cast<std::int32_t>(line * interleave), static_cast<std::int32_t>(tap)});
  }
  void close() { begins.push_back(taps.size()); }
};

Windows forward_windows(const ConvolutionGeometry& g) {
  const Conv2dOptions& o = g.options;
  Windows windows;
  for (std::int64_t i = 0; i < g.y[2]; ++i)
    for (std::int64_t j = 0; j < g.y[3]; ++j) {
      for (std::int64_t a = 0; a < g.w[2]; ++a)
        for (std::int64_t b = 0; b < g.w[3]; ++b) {
          const std::int64_t row = i * o.stride_h + a * o.dilation_h - o.pad_h;
          const std::int64_t column = j * o.stride_w + b * o.dilation_w - o.pad_w;
          if (0 <= row && row < g.x[2] && 0 <= column && column < g.x[3])
            windows.add(row * g.x[3] + column, a * g.w[3] + b);
        }
      windows.close();
    }
  return windows;
}

// The pixels of y that a pixel of x contributes to.
Windows backward_windows(const ConvolutionGeometry& g) {
  const Conv2dOptions& o = g.options;
  const auto source = [](std::int64_t at, std::int64_t stride, std::int64_t size) {
    return at >= 0 && at % stride == 0 && at / stride < size ? at / stride : -1;
  };
  Windows windows;
  for (std::int64_t i = 0; i < g.x[2]; ++i)
    for (std::int64_t j = 0; j < g.x[3]; ++j) {
      for (std::int64_t a = 0; a < g.w[2]; ++a)
        for (std::int64_t b = 0; b < g.w[3]; ++b) {
          const std::int64_t row = source(i + o.pad_h - a * o.dilation_h, o.stride_h, g.y[2]);
          const std::int64_t column = source(j + o.pad_w - b * o.dilation_w, o.stride_w, g.y[3]);
          if (row >= 0 && column >= 0) windows.add(row * g.y[3] + column, a * g.w[3] + b);
        }
      windows.close();
    }
  return windows;
}

// Whether at most half of the last block's images exist.
bool ends_in_half(const Shape& shape) {
  const std::int64_t used = shape[0] % interleave;
  return 0 < used && used <= interleave / 2;
}

// y from x, both interleaved; weight(row, channel, tap) for a row, which is a channel of y.
template <class Weight>
Tensor sums_over_windows(const Tensor& x, const Shape& y_shape, Windows windows, std::int64_t taps,
                         const float* bias, const Weight& weight) {
  const InterleavedKernels& kernels = interleaved_kernels();
  const std::int64_t channels = x.shape()[1], rows = y_shape[1];
  const Parts groups(rows, kernels.sum_rows);
  // The rows of a group are contiguous for each channel of each tap, in small groups as in large
  // ones.
  const std::int64_t group_rows = groups.largest(), group_weights = taps * channels * group_rows;
  std::vector<float> packed(static_cast<std::size_t>(groups.size() * group_weights));
  for (std::int64_t g = 0; g < groups.size(); ++g)
    for (std::int64_t t = 0; t < taps; ++t)
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t r = 0; r < groups.size(g); ++r)
          packed[static_cast<std::size_t>(g * group_weights + (t * channels + c) * group_rows +
                                          r)] = weight(groups.begin(g) + r, c, t);
  for (InterleavedTap& tap : windows.taps)
    tap.weights *= static_cast<std::int32_t>(channels * group_rows);

  Tensor y = empty_in(interleaved_desc(y_shape));
  const std::int64_t blocks = blocks_of(y_shape), pixels = y_shape[2] * y_shape[3];
  const std::int64_t x_plane = plane_of(x.shape()), y_plane = plane_of(y_shape);
  const auto* const from = static_cast<const float*>(x.raw());
  auto* const to = static_cast<float*>(y.raw());
  const std::int64_t halves = ends_in_half(y_shape) ? 1 : 0;
  const Parts whole(blocks - halves, kernels.sum_blocks);
  const std::int64_t strips = whole.size() + halves;
  parallel_for(groups.size() * strips, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t g = part / strips, strip = part % strips;
      const bool is_half = strip == whole.size();
      const std::int64_t block = is_half ? blocks - 1 : whole.begin(strip), row = groups.begin(g);
      InterleavedSum sum = {.x = from + block * channels * x_plane,
                            .x_block = channels * x_plane,
                            .x_channel = x_plane,
                            .channels = channels,
                            .weights = packed.data() + g * group_weights,
                            .weights_channel = group_rows,
                            .bias = bias ? bias + row : nullptr,
                            .y_block = rows * y_plane,
                            .y_row = y_plane};
      for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
        const auto taps_of = [&](std::int64_t i) {
          return windows.taps.data() + windows.begins[static_cast<std::size_t>(i)];
        };
        sum.taps = taps_of(pixel);
        sum.tap_count = taps_of(pixel + 1) - taps_of(pixel);
        sum.y = to + (block * rows + row) * y_plane + pixel * interleave;
        if (is_half)
          kernels.half_sum(sum, groups.size(g));
        else
          kernels.sum(sum, groups.size(g), whole.size(strip));
      }
    }
  });
  // Images that only pad the last block stay zero, as in every padded layout.
  if (const std::int64_t used = y_shape[0] % interleave; used > 0 && bias != nullptr)
    for (float* line = to + (blocks - 1) * rows * y_plane; line < to + blocks * rows * y_plane;
         line += interleave)
      std::fill(line + used, line + interleave, 0.0f);
  return y;
}

// x with its padding as zero pixels, so that every window is inside.
Tensor padded(const Tensor& x, const ConvolutionGeometry& g) {
  const Conv2dOptions& o = g.options;
  if (o.pad_h == 0 && o.pad_w == 0) return x;
  const Shape shape = {g.x[0], g.x[1], g.x[2] + 2 * o.pad_h, g.x[3] + 2 * o.pad_w};
  Tensor made = empty_in(interleaved_desc(shape));
  made.fill(0);
  const std::int64_t planes = blocks_of(g.x) * g.x[1];
  const auto* const from = static_cast<const float*>(x.raw());
  auto* const to = static_cast<float*>(made.raw());
  parallel_for(planes, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane)
      for (std::int64_t i = 0; i < g.x[2]; ++i)
        std::copy_n(from + (plane * g.x[2] + i) * g.x[3] * interleave, g.x[3] * interleave,
                    to + ((plane * shape[2] + i + o.pad_h) * shape[3] + o.pad_w) * interleave);
  });
  return made;
}

}  // namespace

dnnl::memory::desc interleaved_desc(const Shape& shape) {
  return {{shape.begin(), shape.end()},
          dnnl::memory::data_type::f32,
          dnnl::memory::format_tag::Abcd16a};
}

bool is_interleaved(const Tensor& x) {
  return !x.is_plain() && x.shape().rank() == 4 && desc_of(x) == interleaved_desc(x.shape());
}

Tensor dnnl_order(const Tensor& x) {
  return is_interleaved(x) ? x.plain() : x;
}

bool can_interleave(const ConvolutionGeometry& geometry) {
  return geometry.options.groups == 1 && geometry.x.count() > 0;
}

bool interleaving_may_pay(const ConvolutionGeometry& geometry) {
  // oneDNN takes up to four input channels in plain order.
  const std::int64_t in = geometry.w[1], out = geometry.w[0];
  const auto filled = [](std::int64_t channels) { return (channels + 15) / 16 * 16; };
  const std::int64_t work = filled(out) * (in <= 4 ? in : filled(in));
  return can_interleave(geometry) && geometry.x[0] >= interleave && 5 * in * out <= 4 * work;
}

Tensor interleaved_conv2d(const ConvolutionGeometry& geometry, const Tensor& x, const Tensor& w,
                          const Tensor& b) {
  const std::int64_t taps = geometry.w[2] * geometry.w[3], channels = geometry.w[1];
  const Tensor filters = w.plain();
  const float* const weights = filters.data<float>();
  return sums_over_windows(reordered(x, interleaved_desc(geometry.x)), geometry.y,
                           forward_windows(geometry), taps, b ? b.data<float>() : nullptr,
                           [&](std::int64_t row, std::int64_t channel, std::int64_t tap) {
                             return weights[(row * channels + channel) * taps + tap];
                           });
}

Tensor interleaved_conv2d_backward_data(const ConvolutionGeometry& geometry, const Tensor& dy,
                                        const Tensor& w) {
  const std::int64_t taps = geometry.w[2] * geometry.w[3], rows = geometry.w[1];
  const Tensor filters = w.plain();
  const float* const weights = filters.data<float>();
  return sums_over_windows(reordered(dy, interleaved_desc(geometry.y)), geometry.x,
                           backward_windows(geometry), taps, nullptr,
                           [&](std::int64_t row, std::int64_t channel, std::int64_t tap) {
                             return weights[(channel * rows + row) * taps + tap];
                           });
}

Tensor interleaved_conv2d_backward_weights(const ConvolutionGeometry& geometry, const Tensor& input,
                                           const Tensor& upstream) {
  const InterleavedKernels& kernels = interleaved_kernels();
  const Conv2dOptions& o = geometry.options;
  const Tensor x = padded(reordered(input, interleaved_desc(geometry.x)), geometry);
  const Tensor dy = reordered(upstream, interleaved_desc(geometry.y));
  const std::int64_t in = geometry.w[1], out = geometry.w[0];
  const std::int64_t taps = geometry.w[2] * geometry.w[3];
  const std::int64_t blocks = blocks_of(geometry.x), width = x.shape()[3];
  const std::int64_t x_plane = plane_of(x.shape()), dy_plane = plane_of(geometry.y);
  std::vector<std::int64_t> offsets;
  for (std::int64_t a = 0; a < geometry.w[2]; ++a)
    for (std::int64_t b = 0; b < geometry.w[3]; ++b)
      offsets.push_back((a * o.dilation_h * width + b * o.dilation_w) * interleave);

  const Parts row_groups(out, kernels.gradient_rows), tap_groups(taps, kernels.gradient_taps);
  Tensor dw = Tensor::empty(geometry.w);
  float* const result = dw.data<float>();
  const auto* const lines = static_cast<const float*>(x.raw());
  const auto* const slopes = static_cast<const float*>(dy.raw());
  // Each part computes the weights of one input channel and a group of output channels.
  parallel_for(row_groups.size() * in, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> sums;
    for (std::int64_t part = begin; part < end; ++part) {
      const std::int64_t group = part / in, channel = part % in;
      const std::int64_t first = row_groups.begin(group), rows = row_groups.size(group);
      sums.assign(static_cast<std::size_t>(rows * taps * interleave), 0.0f);
      for (std::int64_t block = 0; block < blocks; ++block) {
        const bool is_half = block + 1 == blocks && ends_in_half(geometry.x);
        const auto gradient = is_half ? kernels.half_gradient : kernels.gradient;
        for (std::int64_t t = 0; t < tap_groups.size(); ++t)
          gradient(
              {lines + (block * in + channel) * x_plane, o.stride_h * width * interleave,
               o.stride_w * interleave, offsets.data() + tap_groups.begin(t),
               slopes + (block * out + first) * dy_plane, dy_plane, geometry.y[2], geometry.y[3],
               sums.data() + tap_groups.begin(t) * interleave, taps * interleave},
              rows, tap_groups.size(t));
      }
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t tap = 0; tap < taps; ++tap) {
          const float* const parts_of_sum = sums.data() + (row * taps + tap) * interleave;
          float total = 0;
          for (std::int64_t i = 0; i < interleave; ++i) total += parts_of_sum[i];
          result[((first + row) * in + channel) * taps + tap] = total;
        }
    }
  });
  return dw;
}

}  // namespace tasuki
