#include "tensor/array_operations.hpp"

#include "tensor/cpu/array_kernels.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/eltwise_kernels.hpp"
#include "tensor/cpu/eltwise_operands.hpp"
#include "tensor/cpu/matrix_product.hpp"
#include "tensor/matmul_geometry.hpp"

namespace tasuki {
namespace {

class CpuArrayOperations final : public ArrayOperations {
 public:
  Tensor reduce(Reduction op, const Tensor& x, AxisSet axes, float factor,
                DType /*type: float32 is the only one*/) override {
    const ReductionPlan plan(op, x.shape(), axes);
    if (x.count() == 0) return Tensor::full(plan.shape, 0.0 * static_cast<double>(factor));
    Tensor y = x.plain();
    for (const AxisReduction& pass : plan.passes) {
      Tensor reduced = Tensor::empty({pass.outer, pass.inner});
      reduce_axis(op, pass, floats(y), floats(reduced));
      y = std::move(reduced);
    }
    if (plan.passes.empty() && factor != 1) y = y.clone();
    if (factor != 1) scale_kernel(floats(y), factor, y.count());
    return y.reshape(plan.shape);
  }

  Tensor take_view(const Tensor& x, const View& view) override {
    Tensor taken = Tensor::empty(view.shape, x.dtype());
    copy_from_view(view, x.plain(), taken);
    return taken;
  }

  void put_view(const Tensor& destination, const View& view, const Tensor& source) override {
    check_put(destination, view, source);
    copy_to_view(view, destination, source.plain());
  }

  Tensor matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                bool sums) override {
    const MatmulGeometry geometry(a.shape(), transpose_a, b.shape(), transpose_b, sums);
    const auto& [shape, batch, m, n, k, step_a, step_b, step_c] = geometry;
    Tensor c = Tensor::empty(shape);
    if (c.count() == 0) return c;
    if (k == 0 || batch == 0) {
      c.fill(0);
      return c;
    }
    const Tensor left = a.plain(), right = b.plain();
    multiply_batch({transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, floats(left),
                    floats(right), floats(c), 0},
                   batch, step_a, step_b, step_c);
    return c;
  }
};

}  // namespace

ArrayOperations& CpuBackend::arrays() {
  static CpuArrayOperations operations;
  return operations;
}

}  // namespace tasuki
