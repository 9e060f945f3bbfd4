// Gradients of biases: sums of an activation's gradient over all but the channels.
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/reduce_kernels.hpp"

namespace tasuki {

void CudaBackend::backward_bias(const Tensor& dy, const Tensor& db, bool accumulate) {
  const Shape& shape = dy.shape();
  check_activation(dy, "gradient of a bias");
  check_parameter(db, dy.device(), "gradient of a bias");
  TASUKI_CHECK(shape.rank() >= 2 && db.shape() == Shape{shape[1]},
               "a gradient of {} does not fit a bias of {}", shape.text(), db.shape().text());
  if (dy.count() == 0) {
    if (!accumulate) db.fill(0);
    return;
  }
  const std::int64_t items = shape[0], channels = shape[1];
  const std::int64_t pixels = shape.count_per_item() / channels;
  const bool as_columns = pixels == 1 || is_channels_last(dy);
  const Launch launch = launch_on(dy);
  const kernels::SumPlan plan =
      as_columns ? kernels::plan_column_sums(launch.multiprocessors, items * pixels, channels)
                 : kernels::plan_channel_sums(launch.multiprocessors, items * pixels, channels);
  const Tensor scratch = Tensor::empty({plan.scratch(channels)}, DType::float32, dy.device());
  if (as_columns)
    kernels::column_sums(launch, plan, dy.dtype(), dy.raw(), items * pixels, channels,
                         db.data<float>(), accumulate, scratch.data<float>());
  else
    kernels::channel_sums(launch, plan, dy.dtype(), dy.raw(), items, channels, pixels,
                          db.data<float>(), accumulate, scratch.data<float>());
  check_launch("gradient of a bias");
}

}  // namespace tasuki
