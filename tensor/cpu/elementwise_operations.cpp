#include "tensor/elementwise_operations.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tensor/cpu/broadcast.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/elementwise_kernels.hpp"
#include "tensor/cpu/float_blocks.hpp"

namespace tasuki {
namespace {

class CpuElementwiseOperations final : public ElementwiseOperations {
 public:
  Tensor map(Map f, const Tensor& source, float p, float q) override {
    if (source.count() == 0) return Tensor::empty(source.shape(), source.dtype());
    const Tensor x = without_padding(source);
    Tensor y = empty_like(x);
    const MapKernel kernel = map_kernel(f, p);
    for_float_blocks<1>(x.count(), {FloatElements(x)}, FloatElements(y),
                        [&](const std::array<const float*, 1>& in, float* to, std::int64_t count) {
                          kernel(in[0], to, p, q, count);
                        });
    return y;
  }

  Tensor map_gradient(Map f, const Tensor& source, const Tensor& dy, float p, float q) override {
    if (source.count() == 0) return Tensor::empty(source.shape(), source.dtype());
    const Tensor kept = without_padding(source);
    const Tensor upstream = aligned(dy, kept, "gradient of an element-wise function");
    Tensor dx = empty_like(kept);
    const MapGradientKernel kernel = map_gradient_kernel(f, p);
    for_float_blocks<2>(kept.count(), {FloatElements(kept), FloatElements(upstream)},
                        FloatElements(dx),
                        [&](const std::array<const float*, 2>& in, float* to, std::int64_t count) {
                          kernel(in[0], in[1], to, p, q, count);
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
  template <std::size_t operands, std::size_t... i>
  static std::array<FloatElements, operands> elements_of(const std::array<Tensor, operands>& inputs,
                                                         std::index_sequence<i...>) {
    return {FloatElements(inputs[i])...};
  }

  // kernel(addresses of the operands, of the result, count) on contiguous pieces.
  template <std::size_t operands, class Kernel>
  static Tensor combine(const char* what, std::array<Tensor, operands> inputs,
                        const Kernel& kernel) {
    constexpr auto indices = std::make_index_sequence<operands>();
    const bool are_alike = std::ranges::all_of(
        inputs, [&](const Tensor& each) { return each.shape() == inputs[0].shape(); });
    if (are_alike) {
      if (inputs[0].count() == 0) return Tensor::empty(inputs[0].shape(), inputs[0].dtype());
      inputs[0] = without_padding(inputs[0]);
      for (Tensor& each : inputs) each = aligned(each, inputs[0], what);
      Tensor y = empty_like(inputs[0]);
      for_float_blocks<operands>(y.count(), elements_of(inputs, indices), FloatElements(y), kernel);
      return y;
    }
    std::array<Shape, operands> shapes;
    std::ranges::transform(inputs, shapes.begin(), &Tensor::shape);
    Tensor y = Tensor::empty(broadcast_shape(shapes, what), inputs[0].dtype());
    if (y.count() == 0) return y;
    // Operands that are repeated are small.
    for (Tensor& each : inputs)
      each = each.shape() == y.shape() ? each.plain() : in_float32(each).plain();
    const auto operand = [&](const Tensor& each) { return BlockOperand(y.shape(), each); };
    const auto blocks = [&]<std::size_t... i>(std::index_sequence<i...>) {
      return std::array<BlockOperand, operands>{operand(inputs[i])...};
    }
    (indices);
    const FloatElements result(y);
    for_blocks(
        blocks, y.count(),
        [&](const std::array<const float*, operands>& in, std::int64_t begin, std::int64_t count) {
          float block[BlockOperand::most];
          float* const to = result.place(begin, block);
          kernel(in, to, count);
          result.write(begin, count, to);
        });
    return y;
  }
};

}  // namespace

ElementwiseOperations& CpuBackend::elementwise() {
  static CpuElementwiseOperations operations;
  return operations;
}

}  // namespace tasuki
