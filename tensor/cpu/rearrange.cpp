// Joining and cutting tensors along an axis.
#include <cstring>

#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {
namespace {

// Copies `rows` runs of `length` bytes, which are `from_step` and `to_step` bytes apart.
void copy_runs(const void* from, std::int64_t from_step, void* to, std::int64_t to_step,
               std::int64_t rows, std::int64_t length) {
  if (length == 0) return;
  for (std::int64_t i = 0; i < rows; ++i)
    std::memcpy(static_cast<std::byte*>(to) + i * to_step,
                static_cast<const std::byte*>(from) + i * from_step,
                static_cast<std::size_t>(length));
}

}  // namespace

Tensor CpuBackend::concat(std::span<const Tensor> parts, int axis) {
  const auto [shape, rows, inner] = concat_geometry(parts, axis);
  const DType type = parts[0].dtype();
  Tensor joined = Tensor::empty(shape, type);
  const std::int64_t bytes = inner * static_cast<std::int64_t>(size_of(type));
  auto* to = static_cast<std::byte*>(joined.raw());
  for (const Tensor& part : parts) {
    TASUKI_CHECK(part.dtype() == type, "concat: parts of {} and {}", name_of(type),
                 name_of(part.dtype()));
    const std::int64_t length = part.shape()[axis] * bytes;
    copy_runs(part.plain().raw(), length, to, shape[axis] * bytes, rows, length);
    to += length;
  }
  return joined;
}

Tensor CpuBackend::take(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  const auto [shape, rows, inner] = take_geometry(x.shape(), axis, begin, end);
  Tensor taken = Tensor::empty(shape, x.dtype());
  const std::int64_t bytes = inner * static_cast<std::int64_t>(size_of(x.dtype()));
  const std::int64_t length = (end - begin) * bytes;
  const Tensor source = x.plain();
  copy_runs(static_cast<const std::byte*>(source.raw()) + begin * bytes, x.shape()[axis] * bytes,
            taken.raw(), length, rows, length);
  return taken;
}

}  // namespace tasuki
