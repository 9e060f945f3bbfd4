// Batches of transformed images of a data set in the device's memory.
#include "tensor/image_transform.hpp"

#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/image_transform_kernels.hpp"
#include "tensor/gather_check.hpp"

namespace tasuki {

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
      launch_on(source), dtype, batch.raw(),
      {source.data<std::uint8_t>(), all[0], narrow(all[1]), narrow(all[2]), narrow(all[3])},
      {indices.data<std::int64_t>(), ids.data<std::int64_t>(), epoch.data<std::int64_t>(),
       indices.count()},
      transform, image_streams());
  check_launch("transform_images");
  return batch;
}

}  // namespace tasuki
