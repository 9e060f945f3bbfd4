// What looks at gradients before an update or changes them, without waiting for the device:
// clipping, LARS, loss scaling.
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/reduce_kernels.hpp"
#include "tensor/cuda/update_kernels.hpp"

namespace tasuki {
namespace {

// On the device, so that the host does not wait for it.
void write_squared_norm(const Launch& launch, const Tensor& x, double* result) {
  const Tensor scratch = Tensor::empty(
      {kernels::squared_norm_parts(launch.multiprocessors, x.count())}, DType::float64, x.device());
  kernels::squared_norm(launch, x.data<float>(), x.count(), result, scratch.data<double>());
}

}  // namespace

void CudaBackend::clip(const Tensor& x, const LateScale& scale, double threshold) {
  check_parameter(x, x.device(), "clip");
  const Launch launch = launch_on(x);
  const Tensor norm = Tensor::empty({}, DType::float64, x.device());
  write_squared_norm(launch, x, norm.data<double>());
  kernels::clip(launch, x.data<float>(), x.count(), norm.data<double>(), scale, threshold);
  check_launch("clip");
}

void CudaBackend::lars(const Tensor& g, const Tensor& w, const LarsRule& rule) {
  check_parameter(g, g.device(), "lars");
  check_parameter(w, g.device(), "lars");
  TASUKI_CHECK(g.shape() == w.shape(), "lars: a gradient of {} for a parameter of {}",
               g.shape().text(), w.shape().text());
  const Launch launch = launch_on(g);
  const Tensor norms = Tensor::empty({2}, DType::float64, g.device());
  write_squared_norm(launch, w, norms.data<double>());
  write_squared_norm(launch, g, norms.data<double>() + 1);
  kernels::lars(launch, g.data<float>(), w.data<float>(), g.count(), norms.data<double>(),
                {rule.gradient_scale, rule.threshold, rule.decay, rule.eps});
  check_launch("lars");
}

void CudaBackend::unscale(const Tensor& x, const Tensor& state) {
  check_parameter(x, x.device(), "unscale");
  check_parameter(state, x.device(), "unscale");
  kernels::unscale(launch_on(x), x.data<float>(), x.count(), state.data<float>());
  check_launch("unscale");
}

void CudaBackend::find_non_finite(const Tensor& x, const Tensor& found) {
  check_parameter(x, x.device(), "find_non_finite");
  check_parameter(found, x.device(), "find_non_finite");
  kernels::find_non_finite(launch_on(x), x.data<float>(), x.count(), found.data<float>());
  check_launch("find_non_finite");
}

void CudaBackend::adjust_loss_scale(const Tensor& state, const LossScaleRule& rule) {
  check_parameter(state, state.device(), "adjust_loss_scale");
  kernels::adjust_loss_scale(launch_on(state), state.data<float>(), rule.growth, rule.backoff,
                             static_cast<float>(rule.interval));
  check_launch("adjust_loss_scale");
}

}  // namespace tasuki
