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

}  // namespace tasuki
