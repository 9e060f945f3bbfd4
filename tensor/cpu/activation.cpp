// Activation functions. They keep the type and layout of their inputs.
#include "tensor/cpu/activation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"

namespace tasuki {

Tensor CpuBackend::unary(Unary op, const Tensor& source, float slope) {
  if (source.count() == 0) return Tensor::empty(source.shape(), source.dtype());
  const Tensor x = op == Unary::sigmoid ? without_padding(source) : source;
  Tensor y = empty_like(x);
  const auto kernel = [&](const std::array<const float*, 1>& in, float* out, std::int64_t n) {
    switch (op) {
      case Unary::relu:
        return relu_kernel(in[0], out, n);
      case Unary::leaky_relu:
        return leaky_relu_kernel(in[0], out, slope, n);
      case Unary::sigmoid:
        return sigmoid_kernel(in[0], out, n);
      case Unary::tanh:
        return tanh_kernel(in[0], out, n);
    }
  };
  for_float_blocks<1>(stored_count(x), {FloatElements(x)}, FloatElements(y), kernel);
  return y;
}

Tensor CpuBackend::unary_backward(Unary op, const Tensor& y, const Tensor& dy, float slope) {
  if (y.count() == 0) return Tensor::empty(y.shape(), y.dtype());
  const Tensor upstream = aligned(dy, y, "gradient of an element-wise function");
  Tensor dx = empty_like(y);
  const auto kernel = [&](const std::array<const float*, 2>& in, float* to, std::int64_t n) {
    switch (op) {
      case Unary::relu:
        return relu_backward_kernel(in[0], in[1], to, n);
      case Unary::leaky_relu:
        return leaky_relu_backward_kernel(in[0], in[1], to, slope, n);
      case Unary::sigmoid:
        return sigmoid_backward_kernel(in[0], in[1], to, n);
      case Unary::tanh:
        return tanh_backward_kernel(in[0], in[1], to, n);
    }
  };
  for_float_blocks<2>(stored_count(y), {FloatElements(y), FloatElements(upstream)},
                      FloatElements(dx), kernel);
  return dx;
}

}  // namespace tasuki
