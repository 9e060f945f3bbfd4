// Joining and cutting tensors along an axis.
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/copy_kernels.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {

Tensor CudaBackend::concat(std::span<const Tensor> parts, int axis) {
  const auto [shape, rows, inner] = concat_geometry(parts, axis);
  const Device device = parts[0].device();
  const DType dtype = parts[0].dtype();
  Tensor joined = cuda_empty(shape, dtype, device);
  const std::int64_t bytes = inner * static_cast<std::int64_t>(size_of(dtype));
  auto* to = static_cast<std::byte*>(joined.raw());
  for (const Tensor& part : parts) {
    const std::int64_t length = part.shape()[axis] * bytes;
    kernels::copy_runs(CudaContext::of(device).launch(), to, shape[axis] * bytes,
                       part.plain().raw(), length, rows, length);
    check_launch("concat");
    to += length;
  }
  return joined;
}

Tensor CudaBackend::take(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  const auto [shape, rows, inner] = take_geometry(x.shape(), axis, begin, end);
  const std::int64_t bytes = inner * static_cast<std::int64_t>(size_of(x.dtype()));
  const std::int64_t length = (end - begin) * bytes;
  Tensor taken = cuda_empty(shape, x.dtype(), x.device());
  const Tensor source = x.plain();
  kernels::copy_runs(launch_on(x), taken.raw(), length,
                     static_cast<const std::byte*>(source.raw()) + begin * bytes,
                     x.shape()[axis] * bytes, rows, length);
  check_launch("take");
  return taken;
}

}  // namespace tasuki
