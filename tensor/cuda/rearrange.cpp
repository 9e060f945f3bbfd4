// Joining and cutting tensors along an axis.
#include "tasuki/tensor/cuda/channels_last.hpp"
#include "tasuki/tensor/cuda/context.hpp"
#include "tasuki/tensor/cuda/copy_kernels.hpp"
#include "tasuki/tensor/cuda/cuda_backend.hpp"

namespace tasuki {
namespace {

// Elements before and after an axis, flattened.
std::int64_t product(const Shape& shape, int begin, int end) {
  std::int64_t count = 1;
  for (int axis = begin; axis < end; ++axis) count *= shape[axis];
  return count;
}

void check_axis(const Shape& shape, int axis, const char* what) {
  TASUKI_CHECK(0 <= axis && axis < shape.rank(), "{}: a tensor of {} has no axis {}", what,
               shape.text(), axis);
}

}  // namespace

Tensor CudaBackend::concat(std::span<const Tensor> parts, int axis) {
  TASUKI_CHECK(!parts.empty(), "concat of no tensors");
  const Device device = parts[0].device();
  const DType dtype = parts[0].dtype();
  Shape shape = parts[0].shape();
  check_axis(shape, axis, "concat");
  shape[axis] = 0;
  for (const Tensor& part : parts) {
    Shape rest = part.shape();
    check_axis(rest, axis, "concat");
    const std::int64_t size = rest[axis];
    rest[axis] = shape[axis];
    TASUKI_CHECK(rest == shape && part.dtype() == dtype && part.device() == device,
                 "concat along axis {}: {} of {} on {} does not fit {} of {} on {}", axis,
                 part.shape().text(), name_of(part.dtype()), part.device().text(),
                 parts[0].shape().text(), name_of(dtype), device.text());
    shape[axis] += size;
  }
  Tensor joined = cuda_empty(shape, dtype, device);
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  const std::int64_t rows = product(shape, 0, axis);
  const std::int64_t inner = product(shape, axis + 1, shape.rank()) * element;
  auto* to = static_cast<std::byte*>(joined.raw());
  for (const Tensor& part : parts) {
    const std::int64_t length = part.shape()[axis] * inner;
    kernels::copy_runs(CudaContext::of(device).launch(), to, shape[axis] * inner,
                       part.plain().raw(), length, rows, length);
    check_launch("concat");
    to += length;
  }
  return joined;
}

Tensor CudaBackend::take(const Tensor& x, int axis, std::int64_t begin, std::int64_t end) {
  Shape shape = x.shape();
  check_axis(shape, axis, "take");
  TASUKI_CHECK(0 <= begin && begin <= end && end <= shape[axis],
               "take: [{}, {}) along axis {} of a tensor of {}", begin, end, axis, shape.text());
  const auto element = static_cast<std::int64_t>(size_of(x.dtype()));
  const std::int64_t rows = product(shape, 0, axis);
  const std::int64_t inner = product(shape, axis + 1, shape.rank()) * element;
  const std::int64_t step = shape[axis] * inner, length = (end - begin) * inner;
  shape[axis] = end - begin;
  Tensor taken = cuda_empty(shape, x.dtype(), x.device());
  const Tensor source = x.plain();
  kernels::copy_runs(CudaContext::of(x.device()).launch(), taken.raw(), length,
                     static_cast<const std::byte*>(source.raw()) + begin * inner, step, rows,
                     length);
  check_launch("take");
  return taken;
}

}  // namespace tasuki
