// Activation functions. They keep type and layout of their inputs.
#include "tensor/cuda/activation_kernels.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {

Tensor CudaBackend::unary(Unary op, const Tensor& x, float slope) {
  check_activation(x, "element-wise function");
  Tensor y = cuda_empty_like(x);
  kernels::apply(launch_on(x), op, x.dtype(), x.raw(), y.raw(), slope, x.count());
  check_launch("element-wise function");
  return y;
}

Tensor CudaBackend::unary_backward(Unary op, const Tensor& y, const Tensor& dy, float slope) {
  check_alike(y, dy, "gradient of an element-wise function");
  const Tensor upstream = cuda_in_layout(dy, y.layout());
  Tensor dx = cuda_empty_like(y);
  kernels::apply_backward(launch_on(y), op, y.dtype(), y.raw(), upstream.raw(), dx.raw(), slope,
                          y.count());
  check_launch("gradient of an element-wise function");
  return dx;
}

}  // namespace tasuki
