// Joining and cutting tensors along an axis.
#include <cstring>

#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

// Elements before and after an axis, flattened.
std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t count = 1;
  for (int axis = begin; axis < end; ++axis) count *= shape[axis];
  return count;
}

// Copies `rows` runs of `length` floats; runs lie `from_step` and `to_step` floats apart.
void copy_runs(const float* from, std::int64_t from_step, float* to, std::int64_t to_step,
               std::int64_t rows, std::int64_t length) {
  if (length == 0) return;
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy(to + i * to_step, from + i * from_step,
                static_cast<std::size_t>(length) * sizeof(float));
}

void check_axis(const Shape& shape, int axis, const char* what) {
  TASUKI_CHECK(0 <= axis && axis < shape.rank(), "{}: a tensor of {} has no axis {}", what,
               shape.text(), axis);
}

}  // namespace

Tensor CpuBackend::concat(std::span<const Tensor> parts, int axis) {
  TASUKI_CHECK(!parts.empty(), "concat of no tensors");
  Shape shape = parts[0].shape();
  check_axis(shape, axis, "concat");
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    Shape rest = part.shape();
    check_axis(rest, axis, "concat");
    const std::int64_t size = rest[axis];
    rest[axis] = shape[axis];
    TASUKI_CHECK(rest == shape, "concat along axis {}: {} does not fit {}", axis,
                 part.shape().text(), parts[0].shape().text());
    shape[axis] += size;
  }
  Tensor joined = Tensor::empty(shape);
  const std::int64_t rows = product(shape, 0, axis), inner = product(shape, axis + 1, shape.rank());
  const std::int64_t step = shape[axis] * inner;
  float* to = joined.data<float>();
  for (const Tensor& part : parts) {
    const std::int64_t length = part.shape()[axis] * inner;
    copy_runs(part.plain().data<float>(), length, to, step, rows, length);
    to += length;
  }
  return joined;
}

Tensor CpuBackend::take(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  Shape shape = x.shape();
  check_axis(shape, axis, "take");
  TASUKI_CHECK(0 <= begin && begin <= end && end <= shape[axis],
               "take: [{}, {}) along axis {} of a tensor of {}", begin, end, axis, shape.text());
  const std::int64_t rows = product(shape, 0, axis), inner = product(shape, axis + 1, shape.rank());
  const std::int64_t step = shape[axis] * inner, length = (end - begin) * inner;
  shape[axis] = end - begin;
  Tensor taken = Tensor::empty(shape);
  copy_runs(x.plain().data<float>() + begin * inner, step, taken.data<float>(), length, rows,
            length);
  return taken;
}

}  // namespace tasuki
