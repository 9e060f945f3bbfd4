// The backend's members for optimizers; the loops are in optimizer_kernels.cpp.
#include <algorithm>

#include "tasuki/tensor/cpu/cpu_backend.hpp"
#include "tasuki/tensor/cpu/optimizer_kernels.hpp"
#include "tasuki/tensor/half.hpp"

namespace tasuki {

void CpuBackend::update(const UpdateStep& step) {
  if (step.skip != nullptr && *step.skip != 0) return;
  UpdateStep now = step;
  if (step.device_factors != nullptr) {
    now.rate = step.device_factors[0];
    std::copy_n(step.device_factors + 1, 4, now.constant);
  }
  cpu_update(now);
  if (step.rounded == nullptr) return;
  auto* const rounded = static_cast<std::uint16_t*>(step.rounded);
  std::transform(step.parameter, step.parameter + step.count, rounded,
                 step.rounded_type == DType::float16 ? half_from_float : bfloat16_from_float);
}

double CpuBackend::squared_norm(const Tensor& x) {
  return cpu_squared_norm(x.plain().data<float>(), x.count());
}

}  // namespace tasuki
