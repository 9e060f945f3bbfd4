// Element-wise functions. They keep the layout of their inputs.
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/eltwise_kernels.hpp"
#include "tensor/cpu/eltwise_operands.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

Tensor CpuBackend::unary(Unary op, const Tensor& source, float slope) {
  if (source.count() == 0) return Tensor::empty(source.shape());
  const Tensor x = op == Unary::sigmoid ? without_padding(source) : source;
  Tensor y = empty_like(x);
  const float* const in = floats(x);
  float* const out = floats(y);
  parallel_for(stored_count(x), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
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
  parallel_for(stored_count(y), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
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

Tensor CpuBackend::add(const Tensor& a, const Tensor& b) {
  const Tensor other = aligned(b, a, "add");
  Tensor c = empty_like(a);
  const float* const left = floats(a);
  const float* const right = floats(other);
  float* const to = floats(c);
  parallel_for(stored_count(a), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
    add_kernel(left + begin, right + begin, to + begin, end - begin);
  });
  return c;
}

void CpuBackend::accumulate(const Tensor& destination, const Tensor& source, float scale) {
  const Tensor from = aligned(source, destination, "accumulate");
  float* const to = floats(destination);
  const float* const values = floats(from);
  parallel_for(stored_count(destination), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
    accumulate_kernel(to + begin, values + begin, scale, end - begin);
  });
}

void CpuBackend::accumulate_scalar(const Tensor& sum, const Tensor& value, double factor) {
  TASUKI_CHECK(sum.count() == 1, "expected a scalar to add to, found a tensor of {}",
               sum.shape().text());
  *sum.data<double>() += factor * value.item();
}

void CpuBackend::scale(const Tensor& x, float factor) {
  float* const values = floats(x);
  parallel_for(stored_count(x), eltwise_grain, [&](std::int64_t begin, std::int64_t end) {
    scale_kernel(values + begin, factor, end - begin);
  });
}

void CpuBackend::move_averages(std::span<const MovingAverage> averages) {
  for (const auto& [average, value, decay, weight] : averages) {
    scale(average, decay);
    accumulate(average, value, weight);
  }
}

}  // namespace tasuki
