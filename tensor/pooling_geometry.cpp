#include "tasuki/tensor/pooling_geometry.hpp"

#include <algorithm>

#include "tasuki/core/error.hpp"

namespace tasuki {
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

}  // namespace tasuki
