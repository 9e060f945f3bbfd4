// Sums of two arrays, moving averages, and multiples of an array. They keep
// type and layout of their inputs.
#include "tensor/cuda/accumulation_kernels.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {

Tensor CudaBackend::add(const Tensor& a, const Tensor& b) {
  check_alike(a, b, "add");
  const Tensor other = cuda_in_layout(b, a.layout());
  Tensor c = cuda_empty_like(a);
  kernels::add(launch_on(a), a.dtype(), a.raw(), other.raw(), c.raw(), a.count());
  check_launch("add");
  return c;
}

void CudaBackend::accumulate(const Tensor& destination, const Tensor& source, float scale) {
  const Tensor same_type = source.to(destination.dtype());
  check_alike(destination, same_type, "accumulate");
  const Tensor from = cuda_in_layout(same_type, destination.layout());
  kernels::accumulate(launch_on(destination), destination.dtype(), destination.raw(), from.raw(),
                      scale, destination.count());
  check_launch("accumulate");
}

void CudaBackend::accumulate_scalar(const Tensor& sum, const Tensor& value, double factor) {
  TASUKI_CHECK(sum.count() == 1 && value.count() == 1 && sum.device() == value.device(),
               "a scalar of {} on {} cannot be added to one of {} on {}", value.shape().text(),
               value.device().text(), sum.shape().text(), sum.device().text());
  kernels::accumulate_scalar(launch_on(sum), sum.data<double>(), value.dtype(), value.raw(),
                             factor);
  check_launch("accumulate_scalar");
}

void CudaBackend::move_averages(std::span<const MovingAverage> averages) {
  TASUKI_CHECK(!averages.empty() && averages.size() <= kernels::MovedAverages::most,
               "{} moving averages, 1 to {} can be moved", averages.size(),
               kernels::MovedAverages::most);
  const Tensor& first = averages[0].average;
  kernels::MovedAverages moved{};
  for (const MovingAverage& each : averages) {
    TASUKI_CHECK(each.average.shape() == first.shape() && each.value.shape() == first.shape(),
                 "moving averages of {} and {} with values of {}", first.shape().text(),
                 each.average.shape().text(), each.value.shape().text());
    check_parameter(each.average, first.device(), "moving average");
    check_parameter(each.value, first.device(), "moving average");
    moved.each[moved.number++] = {each.average.data<float>(), each.value.data<float>(), each.decay,
                                  each.weight};
  }
  kernels::move_averages(launch_on(first), moved, first.count());
  check_launch("move_averages");
}

void CudaBackend::scale(const Tensor& x, float factor) {
  check_activation(x, "scale");
  kernels::scale(launch_on(x), x.dtype(), x.raw(), factor, x.count());
  check_launch("scale");
}

}  // namespace tasuki
