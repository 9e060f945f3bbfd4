// Dropout with counter-based random numbers, the same as on CPUs.
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/dropout_kernels.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {

Tensor CudaBackend::dropout(const Tensor& x, float ratio, const Tensor& seed,
                            const Tensor& example_ids) {
  check_activation(x, "dropout");
  TASUKI_CHECK(0 <= ratio && ratio < 1, "dropout: the ratio {} is not in [0, 1)", ratio);
  TASUKI_CHECK(x.shape().rank() >= 1 && x.shape()[0] == example_ids.count() && seed.count() == 1,
               "dropout: {} example numbers and {} seeds for a batch of {}", example_ids.count(),
               seed.count(), x.shape().text());
  TASUKI_CHECK(seed.device() == x.device() && example_ids.device() == x.device(),
               "dropout: seed and example numbers on {} and {} for a batch on {}",
               seed.device().text(), example_ids.device().text(), x.device().text());
  Tensor y = cuda_empty_like(x);
  if (x.count() == 0) return y;
  kernels::ExampleOrder order{x.shape().count_per_item(), 1, is_channels_last(x)};
  if (order.is_channels_last) {
    order.channels = x.shape()[1];
    order.pixels = x.shape()[2] * x.shape()[3];
  }
  kernels::dropout(launch_on(x), x.dtype(), x.raw(), y.raw(), x.shape()[0], order, ratio,
                   seed.data<std::int64_t>(), example_ids.data<std::int64_t>());
  check_launch("dropout");
  return y;
}

}  // namespace tasuki
