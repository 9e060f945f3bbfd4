#include "tensor/geometry.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tasuki {

// --- convolution ---

ConvolutionGeometry::ConvolutionGeometry(const Shape& x_shape, const Shape& w_shape,
                                         const Conv2dOptions& settings)
    : x(x_shape), w(w_shape), options(settings) {
  const Conv2dOptions& o = options;
  TASUKI_CHECK(x.rank() == 4 && w.rank() == 4, "conv2d of {} with {}: both need four axes",
               x.text(), w.text());
  TASUKI_CHECK(o.stride_h > 0 && o.stride_w > 0 && o.pad_h >= 0 && o.pad_w >= 0 &&
                   o.dilation_h > 0 && o.dilation_w > 0 && o.groups > 0 && w.count() > 0,
               "{}: impossible settings", text());
  TASUKI_CHECK(x[1] == w[1] * o.groups && w[0] % o.groups == 0,
               "{}: the channels do not fit each other", text());
  const std::int64_t spare_h = x[2] + 2 * o.pad_h - (o.dilation_h * (w[2] - 1) + 1);
  const std::int64_t spare_w = x[3] + 2 * o.pad_w - (o.dilation_w * (w[3] - 1) + 1);
  TASUKI_CHECK(spare_h >= 0 && spare_w >= 0, "{}: the kernel is larger than the padded image",
               text());
  y = {x[0], w[0], spare_h / o.stride_h + 1, spare_w / o.stride_w + 1};
}

std::string ConvolutionGeometry::text() const {
  const Conv2dOptions& o = options;
  return fmt::format(
      "conv2d of {} with {} (stride {}x{}, padding {}x{}, dilation {}x{}, groups {})", x.text(),
      w.text(), o.stride_h, o.stride_w, o.pad_h, o.pad_w, o.dilation_h, o.dilation_w, o.groups);
}

// --- pooling ---

namespace {

struct Windows {
  std::int64_t count, pad_end;
};

// Along one axis.
Windows windows(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
                bool cover_all) {
  const std::int64_t spare = size + 2 * pad - kernel;
  std::int64_t count = (spare + (cover_all ? stride - 1 : 0)) / stride + 1;
  if (cover_all && (count - 1) * stride >= size + pad) --count;
  return {count, std::max<std::int64_t>((count - 1) * stride + kernel - size - pad, 0)};
}

}  // namespace

PoolingGeometry::PoolingGeometry(const Shape& x_shape, const Pool2dOptions& settings)
    : x(x_shape), options(settings) {
  const Pool2dOptions& o = options;
  TASUKI_CHECK(x.rank() == 4, "{}: four axes are needed", text());
  TASUKI_CHECK(o.kernel_h > 0 && o.kernel_w > 0 && o.stride_h > 0 && o.stride_w > 0 &&
                   o.pad_h >= 0 && o.pad_w >= 0 && o.pad_h < o.kernel_h && o.pad_w < o.kernel_w,
               "{}: impossible settings", text());
  TASUKI_CHECK(!o.cover_all || o.kind == PoolKind::max,
               "{}: only max pooling can cover windows over the edge", text());
  TASUKI_CHECK(x[2] + 2 * o.pad_h >= o.kernel_h && x[3] + 2 * o.pad_w >= o.kernel_w,
               "{}: the window is larger than the padded image", text());
  const Windows h = windows(x[2], o.kernel_h, o.stride_h, o.pad_h, o.cover_all);
  const Windows w = windows(x[3], o.kernel_w, o.stride_w, o.pad_w, o.cover_all);
  y = {x[0], x[1], h.count, w.count};
  pad_end_h = h.pad_end;
  pad_end_w = w.pad_end;
}

std::string PoolingGeometry::text() const {
  return fmt::format("{} pooling of {} (window {}x{}, stride {}x{}, padding {}x{})",
                     options.kind == PoolKind::max ? "max" : "average", x.text(), options.kernel_h,
                     options.kernel_w, options.stride_h, options.stride_w, options.pad_h,
                     options.pad_w);
}

// --- along an axis ---

namespace {

void check_axis(const Shape& shape, int axis, const char* what) {
  TASUKI_CHECK(0 <= axis && axis < shape.rank(), "{}: a tensor of {} has no axis {}", what,
               shape.text(), axis);
}

AxisGeometry around(const Shape& shape, int axis) {
  AxisGeometry geometry{shape};
  for (int i = 0; i < axis; ++i) geometry.rows *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) geometry.inner *= shape[i];
  return geometry;
}

}  // namespace

AxisGeometry concat_geometry(std::span<const Tensor> parts, int axis) {
  TASUKI_CHECK(!parts.empty(), "concat of no tensors");
  const Tensor& first = parts[0];
  Shape shape = first.shape();
  check_axis(shape, axis, "concat");
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    Shape rest = part.shape();
    check_axis(rest, axis, "concat");
    const std::int64_t size = rest[axis];
    rest[axis] = shape[axis];
    TASUKI_CHECK(rest == shape && part.dtype() == first.dtype() && part.device() == first.device(),
                 "concat along axis {}: {} of {} on {} does not fit {} of {} on {}", axis,
                 part.shape().text(), name_of(part.dtype()), part.device().text(),
                 first.shape().text(), name_of(first.dtype()), first.device().text());
    shape[axis] += size;
  }
  return around(shape, axis);
}

AxisGeometry take_geometry(const Shape& x, int axis, std::int64_t begin, std::int64_t end) {
  check_axis(x, axis, "take");
  TASUKI_CHECK(0 <= begin && begin <= end && end <= x[axis],
               "take: [{}, {}) along axis {} of a tensor of {}", begin, end, axis, x.text());
  AxisGeometry geometry = around(x, axis);
  geometry.shape[axis] = end - begin;
  return geometry;
}

}  // namespace tasuki
