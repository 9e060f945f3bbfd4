#include "tasuki/tensor/convolution_geometry.hpp"

#include "tasuki/core/error.hpp"

namespace tasuki {

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

}  // namespace tasuki
