#include "tensor/image_operations.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/philox.hpp"
#include "tensor/cpu/channel_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/dnnl_normalization.hpp"
#include "tensor/cpu/fast_math.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/interleaved.hpp"
#include "tensor/cpu/philox_lanes.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// --- biases ---

TASUKI_VECTORIZE void add_to_line(float* y, float b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += b;
}

TASUKI_VECTORIZE void add_to_lanes(float* y, const float* b, std::int64_t rows,
                                   std::int64_t lanes) {
  for (std::int64_t row = 0; row < rows; ++row)
    for (std::int64_t lane = 0; lane < lanes; ++lane) y[row * lanes + lane] += b[lane];
}

// Images that only pad the last block stay zero.
void add_to_interleaved(const Tensor& y, const float* b) {
  const std::int64_t channels = y.shape()[1], plane = plane_of(y.shape());
  auto* const values = static_cast<float*>(y.raw());
  parallel_for(blocks_of(y.shape()) * channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t at = begin; at < end; ++at) {
      float* const from = values + at * plane;
      const float bias = b[at % channels];
      const std::int64_t used = std::min(interleave, y.shape()[0] - at / channels * interleave);
      if (used == interleave)
        add_to_line(from, bias, plane);
      else
        for (float* line = from; line < from + plane; line += interleave)
          add_to_line(line, bias, used);
    }
  });
}

// --- resizing ---

// y[x], x < width of the result, from two lines of a plane.
TASUKI_VECTORIZE void mix_lines(const float* first, const float* second, float part, float* y,
                                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = first[i] + part * (second[i] - first[i]);
}

using Sources = std::vector<ResizeAxis::Source>;

Sources sources_of(const ResizeAxis& axis) {
  Sources sources;
  for (std::int64_t i = 0; i < axis.out; ++i) sources.push_back(axis.source(i));
  return sources;
}

// Planes of images that are resized alike.
struct Resize {
  std::int64_t planes, height, width;  // of x
  Sources rows, columns;               // of the pixels of y

  Resize(const Shape& x, std::int64_t new_height, std::int64_t new_width,
         const ResizeOptions& options)
      : planes(x[0] * x[1]),
        height(x[2]),
        width(x[3]),
        rows(sources_of({x[2], new_height, options})),
        columns(sources_of({x[3], new_width, options})) {}
  std::int64_t grain() const {
    return elementwise_grain / (std::ssize(rows) * std::ssize(columns)) + 1;
  }
};

void resize_plane(const Resize& resize, const float* x, float* y, float* line) {
  const auto out = std::ssize(resize.columns);
  for (const ResizeAxis::Source& row : resize.rows) {
    mix_lines(x + row.first * resize.width, x + row.second * resize.width, row.part, line,
              resize.width);
    for (std::int64_t i = 0; i < out; ++i) {
      const ResizeAxis::Source& from = resize.columns[static_cast<std::size_t>(i)];
      y[i] = line[from.first] + from.part * (line[from.second] - line[from.first]);
    }
    y += out;
  }
}

TASUKI_VECTORIZE void add_to_two_lines(const float* x, float part, float* first, float* second,
                                       std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) first[i] += (1 - part) * x[i];
  if (part == 0) return;
  for (std::int64_t i = 0; i < count; ++i) second[i] += part * x[i];
}

// Rows first, in lines as wide as dy's: the columns, whose places are not next to each other, are
// then left for as many rows as dx has.
void resize_plane_backward(const Resize& resize, const float* dy, float* dx, float* lines) {
  const auto wide = std::ssize(resize.columns);
  std::fill_n(lines, resize.height * wide, 0.0f);
  for (const ResizeAxis::Source& row : resize.rows) {
    add_to_two_lines(dy, row.part, lines + row.first * wide, lines + row.second * wide, wide);
    dy += wide;
  }
  std::fill_n(dx, resize.height * resize.width, 0.0f);
  for (std::int64_t y = 0; y < resize.height; ++y) {
    for (const ResizeAxis::Source& from : resize.columns) {
      dx[from.first] += (1 - from.part) * *lines;
      dx[from.second] += from.part * *lines++;
    }
    dx += resize.width;
  }
}

// Runs plane(from, to, scratch memory) for all planes.
template <class Plane>
void for_each_plane(const Resize& resize, const float* from, std::int64_t from_size, float* to,
                    std::int64_t to_size, std::int64_t scratch_size, const Plane& plane) {
  parallel_for(resize.planes, resize.grain(), [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(scratch_size));
    for (std::int64_t i = begin; i < end; ++i)
      plane(resize, from + i * from_size, to + i * to_size, scratch.data());
  });
}

// --- noise ---

constexpr std::int64_t drawn_at_once = 4 * philox_lanes;

// Normal numbers for elements first .. first + drawn_at_once - 1 of an example, times sigma; first
// is a multiple of 4.
TASUKI_VECTORIZE void draw_normal(float* out, float sigma, std::int64_t first, std::uint64_t seed,
                                  std::uint64_t example) {
  std::uint32_t words[4][philox_lanes];
  draw_philox(words, static_cast<std::uint32_t>(first / 4), seed, example);
  float normal[4][philox_lanes];
  for (int pair = 0; pair < 4; pair += 2)
    for (std::int64_t lane = 0; lane < philox_lanes; ++lane) {
      const float u = (static_cast<float>(words[pair][lane] >> 8) + 0.5f) * 0x1p-24f;
      const float t = static_cast<float>(words[pair + 1][lane] >> 8) * 0x1p-24f - 0.5f;
      const float radius = sigma * __builtin_sqrtf(-2.0f * fast_log(u));
      const CosSin direction = fast_cos_sin(t);
      normal[pair][lane] = radius * direction.cos;
      normal[pair + 1][lane] = radius * direction.sin;
    }
  for (std::int64_t lane = 0; lane < philox_lanes; ++lane)
    for (int word = 0; word < 4; ++word) out[4 * lane + word] = normal[word][lane];
}

TASUKI_VECTORIZE void draw_uniform(float* out, float scale, std::int64_t first, std::uint64_t seed,
                                   std::uint64_t example) {
  std::uint32_t words[4][philox_lanes];
  draw_philox(words, static_cast<std::uint32_t>(first / 4), seed, example);
  for (std::int64_t lane = 0; lane < philox_lanes; ++lane)
    for (int word = 0; word < 4; ++word)
      out[4 * lane + word] = scale * (static_cast<float>(words[word][lane] >> 8) * 0x1p-23f - 1.0f);
}

struct NoiseSource {
  Noise kind;
  float scale;
  std::uint64_t seed;

  // As draw_normal.
  void draw(float* out, std::int64_t first, std::uint64_t example) const {
    if (kind == Noise::normal)
      draw_normal(out, scale, first, seed, example);
    else
      draw_uniform(out, scale, first, seed, example);
  }
};

// y = a + b; y may be one of them.
TASUKI_VECTORIZE void add_lines(const float* a, const float* b, float* y, std::int64_t count) {
  TASUKI_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

// The `count` elements of an example, from `begin` on.
void add_noise_to_line(const FloatElements& x, const FloatElements& y, std::int64_t begin,
                       std::int64_t count, const NoiseSource& source, std::uint64_t example) {
  float noise[drawn_at_once], block[drawn_at_once];
  for (std::int64_t first = 0; first < count; first += drawn_at_once) {
    source.draw(noise, first, example);
    const std::int64_t at = begin + first, length = std::min(drawn_at_once, count - first);
    float* const to = y.place(at, block);
    add_lines(x.read(at, length, block), noise, to, length);
    y.write(at, length, to);
  }
}

// y[row][lane] = x[row][lane] + noise[lane][row]; y may be x.
TASUKI_VECTORIZE void add_transposed(const float* x, const float* noise, float* y,
                                     std::int64_t rows, std::int64_t lanes) {
  for (std::int64_t row = 0; row < rows; ++row) {
    TASUKI_INDEPENDENT
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      y[row * lanes + lane] = x[row * lanes + lane] + noise[lane * drawn_at_once + row];
  }
}

// A group of channels of an example, from `begin` on, whose values are numbered channel by channel.
// Channels that only pad the group get no noise.
void add_noise_to_group(const FloatElements& x, const FloatElements& y, std::int64_t begin,
                        const ChannelOrder& order, std::int64_t group, std::int64_t channels,
                        const NoiseSource& source, std::uint64_t example) {
  std::vector<float> noise(static_cast<std::size_t>(order.lanes * drawn_at_once));
  FloatBuffers<1> block(y, order.lanes * drawn_at_once);
  for (std::int64_t first = 0; first < order.rows; first += drawn_at_once) {
    for (std::int64_t lane = 0; lane < order.lanes; ++lane)
      if (const std::int64_t channel = group * order.lanes + lane; channel < channels)
        source.draw(noise.data() + lane * drawn_at_once, channel * order.rows + first, example);
    const std::int64_t rows = std::min(drawn_at_once, order.rows - first);
    const std::int64_t at = begin + first * order.lanes, count = rows * order.lanes;
    float* const to = y.place(at, block[0]);
    add_transposed(x.read(at, count, block[0]), noise.data(), to, rows, order.lanes);
    y.write(at, count, to);
  }
}

class CpuImageOperations final : public ImageOperations {
 public:
  Tensor local_response_norm(const Tensor& x, const ResponseNormOptions& options,
                             std::shared_ptr<Workspace>* workspace) override {
    return in_type(cpu_response_norm(in_float32(x), options, workspace), x.dtype());
  }
  Tensor local_response_norm_backward(const Tensor& x, const Tensor& dy,
                                      const ResponseNormOptions& options,
                                      const Workspace& workspace) override {
    return in_type(cpu_response_norm_backward(in_float32(x), in_float32(dy), options, workspace),
                   x.dtype());
  }

  void add_bias(const Tensor& y, const Tensor& given) override {
    const Shape& shape = y.shape();
    TASUKI_CHECK(shape.rank() == 4 && given.shape() == Shape{shape[1]},
                 "a bias of {} does not fit images of {}", given.shape().text(), shape.text());
    if (y.count() == 0) return;
    const Tensor b = in_float32(given);
    if (is_interleaved(y)) return add_to_interleaved(y, b.data<float>());
    const std::optional<ChannelOrder> order = ChannelOrder::of(y);
    if (!order) {
      const Tensor plain = y.plain();
      add_bias(plain, b);
      return y.copy_from(plain);
    }
    std::vector<float> padded(static_cast<std::size_t>(order->channels()));
    std::copy_n(b.data<float>(), shape[1], padded.begin());
    const auto [items, groups, rows, lanes] = *order;
    const FloatElements values(y);
    const std::int64_t most = values.is_float32() ? rows : FloatElements::block / lanes;
    parallel_for(
        items * groups, elementwise_grain / (rows * lanes) + 1,
        [&, groups = groups, rows = rows, lanes = lanes](std::int64_t begin, std::int64_t end) {
          float block[FloatElements::block];
          for (std::int64_t at = begin; at < end; ++at)
            for (std::int64_t row = 0; row < rows; row += most) {
              const std::int64_t here = std::min(most, rows - row);
              const std::int64_t first = (at * rows + row) * lanes;
              float* const to = values.place(first, block);
              values.read(first, here * lanes, block);
              const float* const bias = padded.data() + at % groups * lanes;
              if (lanes == 1)
                add_to_line(to, *bias, here);
              else
                add_to_lanes(to, bias, here, lanes);
              values.write(first, here * lanes, to);
            }
        });
  }

  Tensor resize(const Tensor& source, std::int64_t height, std::int64_t width,
                const ResizeOptions& options) override {
    const Tensor x = in_float32(source).plain();
    const Shape& shape = x.shape();
    const Tensor y = Tensor::empty({shape[0], shape[1], height, width});
    for_each_plane(Resize(shape, height, width, options), x.data<float>(), shape[2] * shape[3],
                   y.data<float>(), height * width, shape[3], resize_plane);
    return in_type(y, source.dtype());
  }

  Tensor resize_backward(const Tensor& upstream, const Shape& shape,
                         const ResizeOptions& options) override {
    const Tensor dy = in_float32(upstream).plain();
    const std::int64_t height = dy.shape()[2], width = dy.shape()[3];
    const Tensor dx = Tensor::empty(shape);
    for_each_plane(Resize(shape, height, width, options), dy.data<float>(), height * width,
                   dx.data<float>(), shape[2] * shape[3], shape[2] * width, resize_plane_backward);
    return in_type(dx, upstream.dtype());
  }

  Tensor add_noise(const Tensor& x, Noise kind, float scale, const Tensor& seed,
                   const Tensor& example_ids) override {
    const Shape& shape = x.shape();
    TASUKI_CHECK(shape.rank() >= 1 && shape[0] == example_ids.count() && seed.count() == 1,
                 "noise: {} example numbers and {} seeds for a batch of {}", example_ids.count(),
                 seed.count(), shape.text());
    const NoiseSource noise{kind, scale, static_cast<std::uint64_t>(*seed.data<std::int64_t>())};
    const std::int64_t* const ids = example_ids.data<std::int64_t>();
    std::optional<ChannelOrder> order;
    if (!x.is_plain() && shape.rank() == 4) order = ChannelOrder::of(x);
    // Blocks of four numbers must not reach over the end of a channel.
    if (order && order->lanes > 1 && order->rows % 4 == 0) {
      Tensor y = empty_like(x);
      const FloatElements from(x), to(y);
      const std::int64_t group_size = order->rows * order->lanes;
      parallel_for(order->items * order->groups, 4096 / group_size + 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t at = begin; at < end; ++at)
                       add_noise_to_group(from, to, at * group_size, *order, at % order->groups,
                                          shape[1], noise,
                                          static_cast<std::uint64_t>(ids[at / order->groups]));
                   });
      return y;
    }
    const Tensor plain = x.plain();
    Tensor y = Tensor::empty(shape, x.dtype());
    const std::int64_t count = shape.count_per_item();
    const FloatElements from(plain), to(y);
    parallel_for(shape[0], 4096 / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        add_noise_to_line(from, to, i * count, count, noise, static_cast<std::uint64_t>(ids[i]));
    });
    return y;
  }
};

}  // namespace

ImageOperations& CpuBackend::images() {
  static CpuImageOperations operations;
  return operations;
}

}  // namespace tasuki
