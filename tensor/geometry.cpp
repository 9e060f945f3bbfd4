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

// --- matrix products ---

MatmulGeometry::MatmulGeometry(const Shape& a, bool transpose_a, const Shape& b, bool transpose_b,
                               bool sums) {
  const auto text = [](const Shape& shape, bool transposed) {
    return shape.text() + (transposed ? " (transposed)" : "");
  };
  const int rank_a = a.rank(), rank_b = b.rank();
  bool fits = rank_a >= 2 && rank_b >= 2;
  if (fits) {
    m = a[rank_a - (transpose_a ? 1 : 2)];
    k = a[rank_a - (transpose_a ? 2 : 1)];
    n = b[rank_b - (transpose_b ? 2 : 1)];
    fits = b[rank_b - (transpose_b ? 1 : 2)] == k;
    if (rank_a > 2 && rank_b > 2)
      fits = fits && rank_a == rank_b && std::equal(a.begin(), a.end() - 2, b.begin());
  }
  TASUKI_CHECK(fits, "matmul: arrays of {} and {} do not fit each other", text(a, transpose_a),
               text(b, transpose_b));
  const Shape& batched = rank_a > 2 ? a : b;
  for (int axis = 0; axis + 2 < batched.rank(); ++axis) batch *= batched[axis];
  shape = batched;
  shape[shape.rank() - 2] = m;
  shape[shape.rank() - 1] = n;
  if (sums) shape = {m, n};
  step_a = rank_a > 2 ? m * k : 0;
  step_b = rank_b > 2 ? k * n : 0;
  step_c = sums || batched.rank() == 2 ? 0 : m * n;
  if (step_c > 0 && step_b == 0 && !transpose_a) {
    m *= batch;
    batch = 1;
  } else if (sums && step_a > 0 && step_b > 0 && transpose_a && !transpose_b) {
    k *= batch;
    batch = 1;
  }
}

// --- reductions ---

ReductionPlan::ReductionPlan(Reduction op, const Shape& x, AxisSet axes) : shape(x) {
  TASUKI_CHECK(axes >> x.rank() == 0, "reduction: an axis beyond those of a shape {}", x.text());
  const auto is_reduced = [&](int axis) { return (axes >> axis & 1U) != 0; };
  for (int axis = 0; axis < x.rank(); ++axis)
    if (is_reduced(axis)) shape[axis] = 1;
  TASUKI_CHECK(op == Reduction::sum || x.count() > 0 || shape.count() == 0,
               "reduction: the largest of no elements, in an array of {}", x.text());
  if (x.count() == 0) return;
  // From the last reduced axis to the first, neighbours together: the first pass reads all elements
  // in order and leaves few.
  std::int64_t inner = 1, before = x.count();
  for (int axis = x.rank(); axis-- > 0;) {
    before /= x[axis];
    if (!is_reduced(axis)) {
      inner *= x[axis];
      continue;
    }
    std::int64_t length = x[axis];
    for (; axis > 0 && (is_reduced(axis - 1) || x[axis - 1] == 1); --axis) {
      length *= x[axis - 1];
      before /= x[axis - 1];
    }
    if (length > 1) passes.push_back({before, length, inner});
  }
}

}  // namespace tasuki
