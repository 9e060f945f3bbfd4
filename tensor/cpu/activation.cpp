// Activation functions. They keep the layout of their inputs.
#include "tensor/cpu/activation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/elementwise_operands.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

Tensor CpuBackend::unary(Unary op, const Tensor& source, float slope) {
  if (source.count() == 0) return Tensor::empty(source.shape());
  const Tensor x = op == Unary::sigmoid ? without_padding(source) : source;
  Tensor y = empty_like(x);
  const float* const in = floats(x);
  float* const out = floats(y);
  parallel_for(stored_count(x), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = end - begin;
    switch (op) {
      case Unary::relu:
        return relu_kernel(in + begin, out + begin, n);
      case Unary::leaky_relu:
        return leaky_relu_kernel(in + begin, out + begin, slope, n);
      case Unary::sigmoid:
        return sigmoid_kernel(in + begin, out + begin, n);
      case Unary::tanh:
        return tanh_kernel(in + begin, out + begin, n);
    }
  });
  return y;
}

Tensor CpuBackend::unary_backward(Unary op, const Tensor& y, const Tensor& dy, float slope) {
  if (y.count() == 0) return Tensor::empty(y.shape());
  const Tensor upstream = aligned(dy, y, "gradient of an element-wise function");
  Tensor dx = empty_like(y);
  const float* const out = floats(y);
  const float* const in = floats(upstream);
  float* const to = floats(dx);
  parallel_for(stored_count(y), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = end - begin;
    switch (op) {
      case Unary::relu:
        return relu_backward_kernel(out + begin, in + begin, to + begin, n);
      case Unary::leaky_relu:
        return leaky_relu_backward_kernel(out + begin, in + begin, to + begin, slope, n);
      case Unary::sigmoid:
        return sigmoid_backward_kernel(out + begin, in + begin, to + begin, n);
      case Unary::tanh:
        return tanh_backward_kernel(out + begin, in + begin, to + begin, n);
    }
  });
  return dx;
}

}  // namespace tasuki
