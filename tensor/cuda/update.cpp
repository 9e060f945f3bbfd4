// Optimizers' updates and the norm of an array; the kernels are in update_kernels.cu.
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/reduce_kernels.hpp"
#include "tensor/cuda/step_filters.hpp"
#include "tensor/cuda/update_kernels.hpp"

namespace tasuki {

void CudaBackend::update(const UpdatePass& pass) {
  kernels::update(CudaContext::of(pass.device).launch(), pass);
  check_launch("update");
  all_filters_change(pass.device);
}

void CudaBackend::norms(const NormPass& pass) {
  const Tensor scratch =
      Tensor::empty({kernels::norm_scratch(pass.parameters)}, DType::float64, pass.device);
  kernels::norms(CudaContext::of(pass.device).launch(), pass, scratch.data<double>());
  check_launch("norms");
}

void CudaBackend::lamb(const LambPass& pass) {
  const Tensor scratch =
      Tensor::empty({kernels::norm_scratch(pass.parameters)}, DType::float64, pass.device);
  kernels::lamb(CudaContext::of(pass.device).launch(), pass, scratch.data<double>());
  check_launch("lamb");
}

double CudaBackend::squared_norm(const Tensor& x) {
  check_parameter(x.plain(), x.device(), "squared norm");
  const Tensor values = x.plain();
  const Launch launch = launch_on(x);
  const Tensor scratch = Tensor::empty(
      {kernels::squared_norm_parts(launch.multiprocessors, x.count())}, DType::float64, x.device());
  const Tensor result = Tensor::empty({}, DType::float64, x.device());
  kernels::squared_norm(launch, values.data<float>(), x.count(), result.data<double>(),
                        scratch.data<double>());
  check_launch("squared norm");
  return result.item();
}

}  // namespace tasuki
