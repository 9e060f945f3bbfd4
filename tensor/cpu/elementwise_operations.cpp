#include "tensor/elementwise_operations.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tensor/cpu/broadcast.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/elementwise_kernels.hpp"
#include "tensor/cpu/elementwise_operands.hpp"
#include "tensor/parallel.hpp"

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
    parallel_for(x.count(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
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
    parallel_for(kept.count(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
      kernel(values + begin, in + begin, to + begin, p, q, end - begin);
    });
    return dx;
  }

  Tensor binary(Binary f, const Tensor& left, const Tensor& right) override {
    const BinaryKernel kernel = binary_kernel(f);
    return combine<2>("function of two arrays", {left, right},
                      [&](const std::array<const float*, 2>& in, float* y, std::int64_t count) {
                        kernel(in[0], in[1], y, count);
                      });
  }

  Tensor ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c) override {
    const TernaryKernel kernel = ternary_kernel(f);
    return combine<3>("function of three arrays", {a, b, c},
                      [&](const std::array<const float*, 3>& in, float* y, std::int64_t count) {
                        kernel(in[0], in[1], in[2], y, count);
                      });
  }

 private:
  // kernel(addresses of the operands, of the result, count) on contiguous pieces.
  template <std::size_t operands, class Kernel>
  static Tensor combine(const char* what, std::array<Tensor, operands> inputs,
                        const Kernel& kernel) {
    const bool are_alike = std::ranges::all_of(
        inputs, [&](const Tensor& each) { return each.shape() == inputs[0].shape(); });
    if (are_alike) {
      if (inputs[0].count() == 0) return Tensor::empty(inputs[0].shape());
      inputs[0] = without_padding(inputs[0]);
      for (Tensor& each : inputs) each = aligned(each, inputs[0], what);
      Tensor y = empty_like(inputs[0]);
      std::array<const float*, operands> from;
      std::ranges::transform(inputs, from.begin(), floats);
      float* const to = floats(y);
      parallel_for(y.count(), elementwise_grain, [&](std::int64_t begin, std::int64_t end) {
        std::array<const float*, operands> at;
        for (std::size_t i = 0; i < operands; ++i) at[i] = from[i] + begin;
        kernel(at, to + begin, end - begin);
      });
      return y;
    }
    std::array<Shape, operands> shapes;
    std::ranges::transform(inputs, shapes.begin(), &Tensor::shape);
    Tensor y = Tensor::empty(broadcast_shape(shapes, what));
    if (y.count() == 0) return y;
    for (Tensor& each : inputs) each = each.plain();
    const auto operand = [&](const Tensor& each) {
      return BlockOperand(y.shape(), each.shape(), floats(each));
    };
    const auto blocks = [&]<std::size_t... i>(std::index_sequence<i...>) {
      return std::array<BlockOperand, operands>{operand(inputs[i])...};
    }
    (std::make_index_sequence<operands>());
    for_blocks(blocks, y.count(),
               [&](const std::array<const float*, operands>& in, std::int64_t begin,
                   std::int64_t count) { kernel(in, floats(y) + begin, count); });
    return y;
  }
};

}  // namespace

ElementwiseOperations& CpuBackend::elementwise() {
  static CpuElementwiseOperations operations;
  return operations;
}

}  // namespace tasuki
