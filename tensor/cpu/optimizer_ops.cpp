// The backend's members for optimizers; the loops are in optimizer_kernels.cpp.
#include "tasuki/tensor/cpu/cpu_backend.hpp"
#include "tasuki/tensor/cpu/optimizer_kernels.hpp"

namespace tasuki {

void CpuBackend::update(const UpdateStep& step) {
  cpu_update(step);
}

double CpuBackend::squared_norm(const Tensor& x) {
  return cpu_squared_norm(x.plain().data<float>(), x.count());
}

}  // namespace tasuki
