// Sums of two arrays, moving averages, and multiples of an array. They keep
// the layout of their inputs.
#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/elementwise_operands.hpp"
#include "tensor/parallel.hpp"

namespace tasuki {

Tensor CpuBackend::add(const Tensor& a, const Tensor& b) {
  const Tensor other = aligned(b, a, "add");
  Tensor c = empty_like(a);
  const float* const left = floats(a);
  const float* const right = floats(other);
  float* const to = floats(c);
  parallel_for(stored_count(a), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    add_kernel(left + begin, right + begin, to + begin, end - begin);
  });
  return c;
}

void CpuBackend::accumulate(const Tensor& destination, const Tensor& source, float scale) {
  const Tensor from = aligned(source, destination, "accumulate");
  float* const to = floats(destination);
  const float* const values = floats(from);
  parallel_for(stored_count(destination), elementwise_grain,
               [&](std::int64_t begin, std::int64_t end) {
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
  parallel_for(stored_count(x), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
    scale_kernel(values + begin, factor, end - begin);
  });
}

void CpuBackend::move_averages(std::span<const MovingAverage> averages) {
  for (const MovingAverage& each : averages) {
    const Tensor value = aligned(each.value, each.average, "move_averages");
    float* const to = floats(each.average);
    const float* const from = floats(value);
    parallel_for(
        stored_count(each.average), elementwise_grain,
        [&, decay = each.decay, weight = each.weight](std::int64_t begin, std::int64_t end) {
          move_average_kernel(to + begin, from + begin, decay, weight, end - begin);
        });
  }
}

}  // namespace tasuki
