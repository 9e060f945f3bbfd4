#include "tasuki/tensor/elementwise_operations.hpp"

#include "tasuki/tensor/cuda/channels_last.hpp"
#include "tasuki/tensor/cuda/context.hpp"
#include "tasuki/tensor/cuda/cuda_backend.hpp"
#include "tasuki/tensor/cuda/map_kernels.hpp"
#include "tasuki/tensor/cuda/operands.hpp"

namespace tasuki {
namespace {

class CudaElementwiseOperations final : public ElementwiseOperations {
 public:
  Tensor map(Map f, const Tensor& x, float p, float q) override {
    check_activation(x, "element-wise function");
    Tensor y = cuda_empty_like(x);
    kernels::map(CudaContext::of(x.device()).launch(), f, x.dtype(), x.raw(), y.raw(), p, q,
                 x.count());
    check_launch("element-wise function");
    return y;
  }

  Tensor map_gradient(Map f, const Tensor& kept, const Tensor& dy, float p, float q) override {
    check_alike(kept, dy, "gradient of an element-wise function");
    const Tensor upstream = cuda_in_layout(dy, kept.layout());
    Tensor dx = cuda_empty_like(kept);
    kernels::map_gradient(CudaContext::of(kept.device()).launch(), f, kept.dtype(), kept.raw(),
                          upstream.raw(), dx.raw(), p, q, kept.count());
    check_launch("gradient of an element-wise function");
    return dx;
  }
};

}  // namespace

ElementwiseOperations& CudaBackend::elementwise() {
  static CudaElementwiseOperations operations;
  return operations;
}

}  // namespace tasuki
