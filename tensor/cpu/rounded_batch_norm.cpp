#include "tensor/cpu/rounded_batch_norm.hpp"

#include <cmath>
#include <vector>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/cpu/rounded_rows.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {
namespace {

// Two sums of each of 16 channels.
struct Sums {
  float first[row_lanes], second[row_lanes];
};

// Independent sums hide the latency of an addition.
constexpr std::int64_t chains = 4;

struct Chains {
  Row first[chains] = {}, second[chains] = {};

  [[gnu::always_inline]] TASUKI_ROUNDING void write(Sums* to) const {
    store_row((first[0] + first[1]) + (first[2] + first[3]), to->first);
    store_row((second[0] + second[1]) + (second[2] + second[3]), to->second);
  }
};

// Calls add(pixel, chain) for all pixels.
template <class Add>
[[gnu::always_inline]] TASUKI_ROUNDING inline void in_chains(std::int64_t pixels, const Add& add) {
  std::int64_t i = 0;
  for (; i + chains <= pixels; i += chains)
    for (std::int64_t chain = 0; chain < chains; ++chain) add(i + chain, chain);
  for (; i < pixels; ++i) add(i, 0);
}

// Sums of x - shift and of its squares.
TASUKI_ROUNDING void sum_pixels(const std::uint16_t* x, std::int64_t pixels, const float* shift,
                                Sums* to) {
  const Row middle = load_row(shift);
  Chains sums;
  const auto add = [&](std::int64_t pixel, std::int64_t chain) TASUKI_ROUNDING {
    const Row value = load_row(x + pixel * row_lanes) - middle;
    sums.first[chain] += value;
    sums.second[chain] += value * value;
  };
  in_chains(pixels, add);
  sums.write(to);
}

// Of 16 channels: y = (x - mean) * scale + beta, which is beta where x is the mean.
struct Line {
  float mean[row_lanes], scale[row_lanes], beta[row_lanes];
};
struct LineRows {
  Row mean, scale, beta;

  [[gnu::always_inline]] TASUKI_ROUNDING explicit LineRows(const Line& line)
      : mean(load_row(line.mean)), scale(load_row(line.scale)), beta(load_row(line.beta)) {}
  // Of x - mean.
  [[gnu::always_inline]] TASUKI_ROUNDING Row at(Row distance) const {
    return distance * scale + beta;
  }
};

TASUKI_ROUNDING void scale_pixels(const std::uint16_t* x, std::int64_t pixels, const Line& line,
                                  bool relu, std::uint16_t* y) {
  const LineRows rows(line);
  for (std::int64_t i = 0; i < pixels * row_lanes; i += row_lanes) {
    const Row value = rows.at(load_row(x + i) - rows.mean);
    store_row(relu ? (value < 0.0f ? Row{} : value) : value, y + i);
  }
}

// dy where the result is above 0, which ReLU let through.
[[gnu::always_inline]] TASUKI_ROUNDING inline Row passed(const std::uint16_t* dy, Row distance,
                                                         const LineRows& rows, bool relu) {
  const Row slope = load_row(dy);
  return relu ? (rows.at(distance) > 0.0f ? slope : Row{}) : slope;
}

// Sums of dy and of dy (x - mean).
TASUKI_ROUNDING void sum_slopes(const std::uint16_t* x, const std::uint16_t* dy,
                                std::int64_t pixels, const Line& line, bool relu, Sums* to) {
  const LineRows rows(line);
  Chains sums;
  const auto add = [&](std::int64_t pixel, std::int64_t chain) TASUKI_ROUNDING {
    const Row distance = load_row(x + pixel * row_lanes) - rows.mean;
    const Row slope = passed(dy + pixel * row_lanes, distance, rows, relu);
    sums.first[chain] += slope;
    sums.second[chain] += slope * distance;
  };
  in_chains(pixels, add);
  sums.write(to);
}

// dx = scale dy + (x - mean) a + b, plus `added` unless it is null.
struct Slopes {
  float a[row_lanes], b[row_lanes];
};
TASUKI_ROUNDING void write_slopes(const std::uint16_t* x, const std::uint16_t* dy,
                                  const std::uint16_t* added, std::int64_t pixels, const Line& line,
                                  bool relu, const Slopes& slopes, std::uint16_t* dx) {
  const LineRows rows(line);
  const Row a = load_row(slopes.a), b = load_row(slopes.b);
  for (std::int64_t i = 0; i < pixels * row_lanes; i += row_lanes) {
    const Row distance = load_row(x + i) - rows.mean;
    const Row slope = passed(dy + i, distance, rows, relu);
    const Row own = slope * rows.scale + (distance * a + b);
    store_row(added != nullptr ? load_row(added + i) + own : own, dx + i);
  }
}

// Images in blocks: number `block` of an image has 16 channels of all its pixels.
struct Blocks {
  std::int64_t images, blocks, pixels;

  explicit Blocks(const Tensor& x)
      : images(x.shape()[0]),
        blocks(x.shape()[1] / row_lanes),
        pixels(x.shape()[2] * x.shape()[3]) {}
  double values() const { return static_cast<double>(images * pixels); }
  // Calls body(channel, elements before the block) for each block of each image, on several
  // threads.
  template <class Body>
  void for_each(const Body& body) const {
    const std::int64_t size = pixels * row_lanes;
    parallel_for(images * blocks, elementwise_grain / size + 1,
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i)
                     body(i, i % blocks * row_lanes, i * size);
                 });
  }
};

// Of all images, channel by channel.
struct ChannelTotals {
  std::vector<double> first, second;
};
ChannelTotals totals(const std::vector<Sums>& sums, std::int64_t blocks) {
  const auto channels = static_cast<std::size_t>(blocks * row_lanes);
  ChannelTotals found{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (std::size_t lane = 0; lane < row_lanes; ++lane) {
      const std::size_t channel = i % static_cast<std::size_t>(blocks) * row_lanes + lane;
      found.first[channel] += static_cast<double>(sums[i].first[lane]);
      found.second[channel] += static_cast<double>(sums[i].second[lane]);
    }
  return found;
}

std::vector<Line> lines_of(const RoundedNorm& norm, const Tensor& mean, const Tensor& variance) {
  std::vector<Line> lines(static_cast<std::size_t>(norm.gamma.count() / row_lanes));
  for (std::size_t c = 0; c < lines.size() * row_lanes; ++c) {
    const double deviation = std::sqrt(double{variance.data<float>()[c]} + double{norm.eps});
    Line& line = lines[c / row_lanes];
    line.mean[c % row_lanes] = mean.data<float>()[c];
    line.scale[c % row_lanes] = static_cast<float>(double{norm.gamma.data<float>()[c]} / deviation);
    line.beta[c % row_lanes] = norm.beta.data<float>()[c];
  }
  return lines;
}

}  // namespace

bool can_use_rounded_batch_norm(const Tensor& x) {
  return x.dtype() == DType::bfloat16 && has_bfloat16_products() && x.shape().rank() == 4 &&
         x.shape()[1] % row_lanes == 0 && x.count() > 0 &&
         x.layout() == layout_of(channel_blocks(x.shape()));
}

Tensor rounded_batch_norm(const Tensor& x, const RoundedNorm& norm, const Tensor& mean,
                          const Tensor& variance) {
  const Blocks blocks(x);
  const std::uint16_t* const from = halves(x);
  // Sums of squares are relative to the first image's means, which are near all images'.
  std::vector<float> firsts(static_cast<std::size_t>(blocks.blocks * row_lanes));
  for (std::int64_t block = 0; block < blocks.blocks; ++block) {
    Sums image;
    const float zeros[row_lanes] = {};
    sum_pixels(from + block * blocks.pixels * row_lanes, blocks.pixels, zeros, &image);
    for (std::int64_t lane = 0; lane < row_lanes; ++lane)
      firsts[static_cast<std::size_t>(block * row_lanes + lane)] =
          image.first[lane] / static_cast<float>(blocks.pixels);
  }
  std::vector<Sums> sums(static_cast<std::size_t>(blocks.images * blocks.blocks));
  blocks.for_each([&](std::int64_t index, std::int64_t channel, std::int64_t begin) {
    sum_pixels(from + begin, blocks.pixels, firsts.data() + channel,
               &sums[static_cast<std::size_t>(index)]);
  });
  const ChannelTotals found = totals(sums, blocks.blocks);
  for (std::size_t c = 0; c < firsts.size(); ++c) {
    const double distance = found.first[c] / blocks.values();
    const double spread = found.second[c] / blocks.values() - distance * distance;
    mean.data<float>()[c] = static_cast<float>(double{firsts[c]} + distance);
    variance.data<float>()[c] = static_cast<float>(spread < 0 ? 0 : spread);  // a NaN stays one
  }
  const std::vector<Line> lines = lines_of(norm, mean, variance);
  Tensor y = empty_like(x);
  blocks.for_each([&](std::int64_t /*index*/, std::int64_t channel, std::int64_t begin) {
    scale_pixels(from + begin, blocks.pixels, lines[static_cast<std::size_t>(channel / row_lanes)],
                 norm.relu, halves(y) + begin);
  });
  return y;
}

Tensor rounded_batch_norm_backward(const Tensor& x, const Tensor& dy, const RoundedNorm& norm,
                                   const Tensor& mean, const Tensor& variance, const Tensor& dgamma,
                                   const Tensor& dbeta, const Tensor& added) {
  const Blocks blocks(x);
  const Tensor upstream = reordered(dy, channel_blocks(x.shape()));
  const Tensor sum = added ? reordered(added, channel_blocks(x.shape())) : added;
  const std::vector<Line> lines = lines_of(norm, mean, variance);
  std::vector<Sums> sums(static_cast<std::size_t>(blocks.images * blocks.blocks));
  blocks.for_each([&](std::int64_t index, std::int64_t channel, std::int64_t begin) {
    sum_slopes(halves(x) + begin, halves(upstream) + begin, blocks.pixels,
               lines[static_cast<std::size_t>(channel / row_lanes)], norm.relu,
               &sums[static_cast<std::size_t>(index)]);
  });
  const ChannelTotals found = totals(sums, blocks.blocks);
  // With x' = (x - mean) / deviation and m values: dx = gamma / deviation * (dy - sum(dy) / m - x'
  // * sum(dy x') / m).
  std::vector<Slopes> slopes(lines.size());
  for (std::size_t c = 0; c < found.first.size(); ++c) {
    const double spread = double{variance.data<float>()[c]} + double{norm.eps};
    const double scale = double{norm.gamma.data<float>()[c]} / std::sqrt(spread);
    Slopes& of_block = slopes[c / row_lanes];
    of_block.a[c % row_lanes] =
        static_cast<float>(-scale * found.second[c] / spread / blocks.values());
    of_block.b[c % row_lanes] = static_cast<float>(-scale * found.first[c] / blocks.values());
    dgamma.data<float>()[c] = static_cast<float>(found.second[c] / std::sqrt(spread));
    dbeta.data<float>()[c] = static_cast<float>(found.first[c]);
  }
  Tensor dx = empty_like(x);
  blocks.for_each([&](std::int64_t /*index*/, std::int64_t channel, std::int64_t begin) {
    const auto block = static_cast<std::size_t>(channel / row_lanes);
    write_slopes(halves(x) + begin, halves(upstream) + begin, sum ? halves(sum) + begin : nullptr,
                 blocks.pixels, lines[block], norm.relu, slopes[block], halves(dx) + begin);
  });
  return dx;
}

}  // namespace tasuki
