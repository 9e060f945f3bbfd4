// Average pooling of interleaved images.
#include <algorithm>
#include <limits>

#include "tensor/cpu/interleaved.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// The part of an axis of x that the window of a pixel of y covers.
struct Span {
  std::int64_t begin, end;
};
inline __attribute__((always_inline)) Span span_of(std::int64_t at, std::int64_t stride,
                                                   std::int64_t pad, std::int64_t kernel,
                                                   std::int64_t size) {
  return {std::max<std::int64_t>(at * stride - pad, 0), std::min(at * stride - pad + kernel, size)};
}

// Calls visit(line of y, rows of x, columns of x) for all windows.
template <class Visit>
inline __attribute__((always_inline)) void visit_windows(const PoolingGeometry& g,
                                                         const Visit& visit) {
  const Pool2dOptions& o = g.options;
  for (std::int64_t i = 0; i < g.y[2]; ++i)
    for (std::int64_t j = 0; j < g.y[3]; ++j)
      visit((i * g.y[3] + j) * interleave, span_of(i, o.stride_h, o.pad_h, o.kernel_h, g.x[2]),
            span_of(j, o.stride_w, o.pad_w, o.kernel_w, g.x[3]));
}

float share_of(const Pool2dOptions& options) {
  return 1.0f / static_cast<float>(options.kernel_h * options.kernel_w);
}

// y = means of x, with values below `least` replaced by it.
TASUKI_VECTORIZE void average_plane(const PoolingGeometry& g, const float* x, float least,
                                    float* y) {
  const float share = share_of(g.options);
  const std::int64_t width = g.x[3];
  visit_windows(g, [&](std::int64_t to, Span rows, Span columns) {
    float sum[interleave] = {};
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const float* const from = x + (row * width + column) * interleave;
        for (std::int64_t lane = 0; lane < interleave; ++lane)
          sum[lane] += from[lane] < least ? least : from[lane];
      }
    for (std::int64_t lane = 0; lane < interleave; ++lane) y[to + lane] = share * sum[lane];
  });
}

// Distributes each pixel of dy to the pixels that it is the mean of; pass(i, part) is what reaches
// element i of dx, which overlaps no other array.
template <class Pass>
inline __attribute__((always_inline)) void spread(const PoolingGeometry& g, const float* dy,
                                                  float* __restrict dx, const Pass& pass) {
  const Pool2dOptions& o = g.options;
  const float share = share_of(o);
  const std::int64_t width = g.x[3];
  // Windows that do not overlap write each pixel once.
  const bool once = o.stride_h == o.kernel_h && o.stride_w == o.kernel_w;
  const bool all =
      once && g.y[2] * o.stride_h - o.pad_h >= g.x[2] && g.y[3] * o.stride_w - o.pad_w >= g.x[3];
  if (!all) std::fill_n(dx, g.x[2] * width * interleave, 0.0f);
  visit_windows(g, [&](std::int64_t from, Span rows, Span columns) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      for (std::int64_t column = columns.begin; column < columns.end; ++column) {
        const std::int64_t to = (row * width + column) * interleave;
        for (std::int64_t lane = 0; lane < interleave; ++lane)
          dx[to + lane] = pass(to + lane, share * dy[from + lane]) + (once ? 0.0f : dx[to + lane]);
      }
  });
}

TASUKI_VECTORIZE void average_plane_backward(const PoolingGeometry& g, const float* dy, float* dx) {
  spread(g, dy, dx, [](std::int64_t, float part) { return part; });
}

TASUKI_VECTORIZE void relu_average_plane_backward(const PoolingGeometry& g, const float* dy,
                                                  const float* x, float* dx) {
  spread(g, dy, dx, [x](std::int64_t i, float part) { return x[i] <= 0 ? 0.0f : part; });
}

// Calls body(i) for each plane, a channel of a block of images.
template <class Body>
void for_planes(const PoolingGeometry& g, const Body& body) {
  const std::int64_t grain = elementwise_grain / (g.x[2] * g.x[3] * interleave) + 1;
  parallel_for(blocks_of(g.x) * g.x[1], grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) body(plane);
  });
}

float* floats(const Tensor& tensor) {
  return static_cast<float*>(tensor.raw());
}

}  // namespace

Tensor interleaved_average(const PoolingGeometry& geometry, const Tensor& x, bool relu) {
  const float least = relu ? 0.0f : -std::numeric_limits<float>::infinity();
  Tensor y = empty_in(interleaved_desc(geometry.y));
  const float* const from = floats(x);
  float* const to = floats(y);
  const std::int64_t x_plane = plane_of(geometry.x), y_plane = plane_of(geometry.y);
  for_planes(geometry, [&](std::int64_t plane) {
    average_plane(geometry, from + plane * x_plane, least, to + plane * y_plane);
  });
  return y;
}

Tensor interleaved_average_backward(const PoolingGeometry& geometry, const Tensor& dy,
                                    const Tensor& x) {
  const Tensor upstream = reordered(dy, interleaved_desc(geometry.y));
  Tensor dx = empty_in(interleaved_desc(geometry.x));
  const float* const from = floats(upstream);
  const float* const values = floats(x);
  float* const to = floats(dx);
  const std::int64_t x_plane = plane_of(geometry.x), y_plane = plane_of(geometry.y);
  for_planes(geometry, [&](std::int64_t plane) {
    if (values == nullptr)
      average_plane_backward(geometry, from + plane * y_plane, to + plane * x_plane);
    else
      relu_average_plane_backward(geometry, from + plane * y_plane, values + plane * x_plane,
                                  to + plane * x_plane);
  });
  return dx;
}

}  // namespace tasuki
