// Joining and cutting tensors along an axis.
#include <cstring>

#include "tasuki/tensor/axis_geometry.hpp"
#include "tasuki/tensor/cpu/cpu_backend.hpp"

namespace tasuki {
namespace {

// Copies `rows` runs of `length` floats; runs lie `from_step` and `to_step` floats apart.
void copy_runs(const float* from, std::int64_t from_step, float* to, std::int64_t to_step,
               std::int64_t rows, std::int64_t length) {
  if (length == 0) return;
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy(to + i * to_step, from + i * from_step,
                static_cast<std::size_t>(length) * sizeof(float));
}

}  // namespace

Tensor CpuBackend::concat(std::span<const Tensor> parts, int axis) {
  const auto [shape, rows, inner] = concat_geometry(parts, axis);
  Tensor joined = Tensor::empty(shape);
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
  const auto [shape, rows, inner] = take_geometry(x.shape(), axis, begin, end);
  Tensor taken = Tensor::empty(shape);
  copy_runs(x.plain().data<float>() + begin * inner, x.shape()[axis] * inner, taken.data<float>(),
            (end - begin) * inner, rows, (end - begin) * inner);
  return taken;
}

}  // namespace tasuki
