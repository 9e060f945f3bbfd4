#include "tasuki/tensor/axis_geometry.hpp"

#include "tasuki/core/error.hpp"

namespace tasuki {
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
