#include "tensor/cpu/rounded_pooling.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/cpu/dnnl_support.hpp"
#include "tensor/cpu/rounded_blocks.hpp"
#include "tensor/cpu/rounded_product.hpp"
#include "tensor/half.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// Neighbours of an axis.
struct Span {
  std::int64_t begin, end;
  bool operator==(const Span&) const = default;
};

// An axis of a pooling.
struct Axis {
  std::vector<Span> windows;  // of x, of which each result is the mean
  std::vector<Span> results;  // that each pixel of x is a part of

  Axis(std::int64_t size, std::int64_t count, std::int64_t kernel, std::int64_t stride,
       std::int64_t pad) {
    for (std::int64_t i = 0; i < count; ++i)
      windows.push_back(
          {std::max<std::int64_t>(i * stride - pad, 0), std::min(i * stride - pad + kernel, size)});
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t first = std::max<std::int64_t>(i + pad - kernel + 1, 0);
      results.push_back({(first + stride - 1) / stride, std::min((i + pad) / stride + 1, count)});
    }
  }
  std::int64_t size() const { return static_cast<std::int64_t>(results.size()); }
  std::int64_t count() const { return static_cast<std::int64_t>(windows.size()); }
};

// Rows of an image, or of a block of its channels: `lanes` channels of each pixel side by side.
struct Rows {
  Axis down, right;
  bool is_blocked;
  std::int64_t planes, lanes;
  float share;  // of a pixel in a mean

  Rows(const PoolingGeometry& g, const std::shared_ptr<const Layout>& layout)
      : down(g.x[2], g.y[2], g.options.kernel_h, g.options.stride_h, g.options.pad_h),
        right(g.x[3], g.y[3], g.options.kernel_w, g.options.stride_w, g.options.pad_w),
        is_blocked(layout == layout_of(channel_blocks(g.x))),
        share(1.0f / static_cast<float>(g.options.kernel_h * g.options.kernel_w)) {
    constexpr std::int64_t block = 16;
    lanes = is_blocked ? block : g.x[1];
    planes = g.x[0] * (is_blocked ? (g.x[1] + block - 1) / block : 1);
  }
  dnnl::memory::desc order_of(const Shape& images) const {
    return is_blocked ? channel_blocks(images) : channels_last(images);
  }
  std::int64_t x_row() const { return right.size() * lanes; }
  std::int64_t y_row() const { return right.count() * lanes; }

  // Calls body(first plane, last plane + 1), on several threads.
  template <class Body>
  void for_planes(const Body& body) const {
    parallel_for(planes, elementwise_grain / (down.size() * x_row()) + 1, body);
  }
};

// sums += scale * x, with values of x below `least` replaced by it.
TASUKI_VECTORIZE void add_row(const std::uint16_t* x, std::int64_t count, float scale, float least,
                              float* sums) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float value = float_from_bfloat16(x[i]);
    sums[i] += scale * (value < least ? least : value);
  }
}

// Sums over neighbouring pixels: to[i] = from[spans[i].begin] + ... + from[spans[i].end - 1].
TASUKI_VECTORIZE void add_spans(const Span* spans, std::int64_t count, std::int64_t lanes,
                                const float* from, float* to) {
  for (std::int64_t i = 0; i < count; ++i, to += lanes) {
    const auto [begin, end] = spans[i];
    for (std::int64_t lane = 0; lane < lanes; ++lane)
      to[lane] = begin < end ? from[begin * lanes + lane] : 0.0f;
    for (std::int64_t j = begin + 1; j < end; ++j)
      for (std::int64_t lane = 0; lane < lanes; ++lane) to[lane] += from[j * lanes + lane];
  }
}

// to = slopes where x is positive (or no number), else 0.
TASUKI_VECTORIZE void pass_positive(const std::uint16_t* x, const float* slopes, std::int64_t count,
                                    float* to) {
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = float_from_bfloat16(x[i]) <= 0 ? 0.0f : slopes[i];
}

void narrow(const std::vector<float>& values, std::uint16_t* to) {
  static const HalfFormat format = half_format(DType::bfloat16);
  format.narrow(to, values.data(), static_cast<std::int64_t>(values.size()));
}

std::vector<float> row_of(std::int64_t count) {
  return std::vector<float>(static_cast<std::size_t>(count));
}

}  // namespace

bool can_average_rounded(const Tensor& x) {
  return x.dtype() == DType::bfloat16 && has_bfloat16_products() && !x.is_plain() &&
         x.shape().rank() == 4 &&
         (x.layout() == layout_of(channel_blocks(x.shape())) ||
          x.layout() == layout_of(channels_last(x.shape())));
}

Tensor rounded_average(const PoolingGeometry& geometry, const Tensor& x, bool relu) {
  const Rows rows(geometry, x.layout());
  Tensor y = empty_in(rows.order_of(geometry.y));
  const float least = relu ? 0.0f : -std::numeric_limits<float>::infinity();
  rows.for_planes([&](std::int64_t first, std::int64_t last) {
    std::vector<float> sums = row_of(rows.x_row()), means = row_of(rows.y_row());
    std::uint16_t* to = halves(y) + first * rows.down.count() * rows.y_row();
    for (std::int64_t plane = first; plane < last; ++plane) {
      const std::uint16_t* const from = halves(x) + plane * rows.down.size() * rows.x_row();
      for (const Span& window : rows.down.windows) {
        std::ranges::fill(sums, 0.0f);
        for (std::int64_t row = window.begin; row < window.end; ++row)
          add_row(from + row * rows.x_row(), rows.x_row(), rows.share, least, sums.data());
        add_spans(rows.right.windows.data(), rows.right.count(), rows.lanes, sums.data(),
                  means.data());
        narrow(means, to);
        to += rows.y_row();
      }
    }
  });
  return y;
}

Tensor rounded_average_backward(const PoolingGeometry& geometry, const Tensor& dy,
                                const std::shared_ptr<const Layout>& layout, const Tensor& x) {
  const Rows rows(geometry, layout);
  const Tensor slopes = reordered(dy, rows.order_of(geometry.y));
  Tensor dx = empty_in(rows.order_of(geometry.x));
  constexpr float all = -std::numeric_limits<float>::infinity();
  rows.for_planes([&](std::int64_t first, std::int64_t last) {
    std::vector<float> sums = row_of(rows.y_row()), spread = row_of(rows.x_row()), passed;
    if (x) passed = row_of(rows.x_row());
    std::uint16_t* row = halves(dx) + first * rows.down.size() * rows.x_row();
    for (std::int64_t plane = first; plane < last; ++plane) {
      const std::uint16_t* const from = halves(slopes) + plane * rows.down.count() * rows.y_row();
      Span before{-1, -1};
      for (const Span& results : rows.down.results) {
        if (results != before) {
          std::ranges::fill(sums, 0.0f);
          for (std::int64_t j = results.begin; j < results.end; ++j)
            add_row(from + j * rows.y_row(), rows.y_row(), rows.share, all, sums.data());
          add_spans(rows.right.results.data(), rows.right.size(), rows.lanes, sums.data(),
                    spread.data());
        }
        if (x) {
          pass_positive(halves(x) + (row - halves(dx)), spread.data(), rows.x_row(), passed.data());
          narrow(passed, row);
        } else if (results != before) {
          narrow(spread, row);
        } else {
          // Rows of the same windows have the same gradient.
          std::memcpy(row, row - rows.x_row(), spread.size() * sizeof *row);
        }
        before = results;
        row += rows.x_row();
      }
    }
  });
  return dx;
}

}  // namespace tasuki
