#include "tasuki/tensor/elementwise_operations.hpp"

#include "tasuki/tensor/cpu/cpu_backend.hpp"
#include "tasuki/tensor/cpu/eltwise_operands.hpp"
#include "tasuki/tensor/cpu/map_kernels.hpp"
#include "tasuki/tensor/cpu/parallel.hpp"

namespace tasuki {
namespace {

class CpuElementwiseOperations final : public ElementwiseOperations {
 public:
  Tensor map(Map f, const Tensor& source, float p, float q) override {
    if (source.count() == 0) return Tensor::empty(source.shape());
    const Tensor x = without_padding(source);
    Tensor y = empty_like(x);
    const float* const from = floats(x);
    float* const to = floats(y);
    const MapKernel kernel = map_kernel(f, p);
    parallel_for(x.count(), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
      kernel(from + begin, to + begin, p, q, end - begin);
    });
    return y;
  }

  Tensor map_gradient(Map f, const Tensor& source, const Tensor& dy, float p, float q) override {
    if (source.count() == 0) return Tensor::empty(source.shape());
    const Tensor kept = without_padding(source);
    const Tensor upstream = aligned(dy, kept, "gradient of an element-wise function");
    Tensor dx = empty_like(kept);
    const float* const values = floats(kept);
    const float* const in = floats(upstream);
    float* const to = floats(dx);
    const MapGradientKernel kernel = map_gradient_kernel(f, p);
    parallel_for(kept.count(), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
      kernel(values + begin, in + begin, to + begin, p, q, end - begin);
    });
    return dx;
  }
};

}  // namespace

ElementwiseOperations& CpuBackend::elementwise() {
  static CpuElementwiseOperations operations;
  return operations;
}

}  // namespace tasuki
