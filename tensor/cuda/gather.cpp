// Batches of a data set in the device's memory.
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/gather_kernels.hpp"
#include "tensor/gather_check.hpp"

namespace tasuki {

Tensor CudaBackend::gather(const Tensor& source, const Tensor& indices, DType dtype) {
  check_gather(source, indices, dtype);
  const Device device = source.device();
  Tensor batch = Tensor::empty(source.shape().with_items(indices.count()), dtype, device);
  const Tensor numbers = indices.to(device);
  kernels::gather(CudaContext::of(device).launch(), dtype, batch.raw(), source.dtype(),
                  source.raw(), source.shape()[0], numbers.data<std::int64_t>(), indices.count(),
                  source.shape().count_per_item());
  check_launch("gather");
  return batch;
}

Tensor CudaBackend::transform_images(const Tensor& source, const Tensor& indices, const Tensor& ids,
                                     const Tensor& epoch, const SeededImageTransform& transform,
                                     DType dtype) {
  check_images(source, indices, ids, epoch, dtype);
  const Shape& all = source.shape();
  TASUKI_CHECK(all[1] <= kernels::most_image_channels,
               "transform_images: expected at most {} channels, found {}",
               kernels::most_image_channels, all[1]);
  Tensor batch = Tensor::empty(all.with_items(indices.count()), dtype, source.device());
  if (batch.count() == 0) return batch;
  const auto narrow = [](std::int64_t size) { return static_cast<int>(size); };
  kernels::transform_images(
      CudaContext::of(source.device()).launch(), dtype, batch.raw(),
      {source.data<std::uint8_t>(), all[0], narrow(all[1]), narrow(all[2]), narrow(all[3])},
      {indices.data<std::int64_t>(), ids.data<std::int64_t>(), epoch.data<std::int64_t>(),
       indices.count()},
      transform, image_streams());
  check_launch("transform_images");
  return batch;
}

}  // namespace tasuki
