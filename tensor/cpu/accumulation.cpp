// Sums of two arrays, moving averages, and multiples of an array. They keep the type and layout of
// their inputs.
#include "tensor/cpu/accumulation_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/float_blocks.hpp"

namespace tasuki {

Tensor CpuBackend::add(const Tensor& a, const Tensor& b) {
  const Tensor other = aligned(b, a, "add");
  Tensor c = empty_like(a);
  for_float_blocks<2>(stored_count(a), {FloatElements(a), FloatElements(other)}, FloatElements(c),
                      [](const std::array<const float*, 2>& in, float* to, std::int64_t count) {
                        add_kernel(in[0], in[1], to, count);
                      });
  return c;
}

void CpuBackend::accumulate(const Tensor& destination, const Tensor& source, float scale) {
  const Tensor from = aligned(source, destination, "accumulate");
  const FloatElements to(destination);
  for_float_blocks<2>(stored_count(destination), {to, FloatElements(from)}, to,
                      [&](const std::array<const float*, 2>& in, float* sums, std::int64_t count) {
                        if (in[0] != sums) std::copy_n(in[0], count, sums);
                        accumulate_kernel(sums, in[1], scale, count);
                      });
}

void CpuBackend::accumulate_scalar(const Tensor& sum, const Tensor& value, double factor) {
  TASUKI_CHECK(sum.count() == 1, "expected a scalar to add to, found a tensor of {}",
               sum.shape().text());
  *sum.data<double>() += factor * value.item();
}

void CpuBackend::scale(const Tensor& x, float factor) {
  const FloatElements values(x);
  for_float_blocks<1>(stored_count(x), {values}, values,
                      [&](const std::array<const float*, 1>& in, float* to, std::int64_t count) {
                        if (in[0] != to) std::copy_n(in[0], count, to);
                        scale_kernel(to, factor, count);
                      });
}

void CpuBackend::move_averages(std::span<const MovingAverage> averages) {
  for (const MovingAverage& each : averages) {
    const Tensor value = aligned(in_float32(each.value), each.average, "move_averages");
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
