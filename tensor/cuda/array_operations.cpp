#include "tensor/array_operations.hpp"

#include "tensor/cuda/array_kernels.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/copy_kernels.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/matmul.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {
namespace {

// Elements of the reduced axis that one thread or warp takes: longer axes are reduced in two steps,
// so that many threads share few long sums. A function of the sizes only.
std::int64_t piece_of(const AxisReduction& pass) {
  constexpr std::int64_t by_warp = 4096, by_thread = 256;
  return pass.inner == 1 ? by_warp : by_thread;
}

class CudaArrayOperations final : public ArrayOperations {
 public:
  Tensor reduce(Reduction op, const Tensor& x, AxisSet axes, float factor, DType type) override {
    check_activation(x, "reduction");
    TASUKI_CHECK(type == x.dtype() || type == DType::float32, "reduction of {} to {}",
                 name_of(x.dtype()), name_of(type));
    const ReductionPlan plan(op, x.shape(), axes);
    if (x.count() == 0)
      return Tensor::full(plan.shape, 0.0 * static_cast<double>(factor), type, x.device());
    std::vector<AxisReduction> passes = plan.passes;
    if (passes.empty()) passes.push_back({1, 1, x.count()});  // the factor alone
    const Launch launch = launch_on(x);
    Tensor y = x.plain();
    for (std::size_t i = 0; i < passes.size(); ++i) {
      AxisReduction pass = passes[i];
      for (bool is_done = false; !is_done;) {
        const std::int64_t piece = piece_of(pass);
        const std::int64_t pieces = (pass.length + piece - 1) / piece;
        is_done = pieces == 1;
        const bool is_last = is_done && i + 1 == passes.size();
        const Tensor reduced = Tensor::empty({pass.outer, pieces, pass.inner},
                                             is_last ? type : DType::float32, x.device());
        kernels::reduce_axis(launch, op == Reduction::sum, y.dtype(), y.raw(), reduced.dtype(),
                             reduced.raw(), pass.outer, pass.length, pass.inner, piece,
                             is_last ? factor : 1);
        check_launch("reduction");
        pass.length = pieces;
        y = reduced;
      }
    }
    return y.reshape(plan.shape);
  }

  Tensor take_view(const Tensor& x, const View& view) override {
    Tensor taken = cuda_empty(view.shape, x.dtype(), x.device());
    const Tensor source = x.plain();
    const std::size_t bytes = size_of(x.dtype());
    const void* const from = at(source, view);
    const StridedLoop<1> loop(view.shape, {view.strides});
    const Launch launch = launch_on(x);
    // Transposed matrices, one after the other, are copied in squares.
    const int last = loop.rank - 1;
    const std::int64_t columns = last > 0 ? loop.sizes[last - 1] : 0, rows = loop.sizes[last];
    if (columns > 0 && loop.strides[0][last - 1] == 1 && loop.strides[0][last] == columns &&
        (last == 1 || (last == 2 && loop.strides[0][0] == rows * columns)))
      kernels::transpose(launch, taken.raw(), from, bytes, last == 2 ? loop.sizes[0] : 1, rows,
                         columns);
    else
      kernels::copy_from_strided(launch, bytes, loop, from, taken.raw(), taken.count());
    check_launch("take_view");
    return taken;
  }

  void put_view(const Tensor& destination, const View& view, const Tensor& source) override {
    check_put(destination, view, source);
    const Tensor from = source.plain();
    kernels::copy_to_strided(launch_on(source), size_of(source.dtype()),
                             StridedLoop<1>(view.shape, {view.strides}), from.raw(),
                             at(destination, view), source.count());
    check_launch("put_view");
  }

  Tensor matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                bool sums) override {
    check_activation(a, "matmul");
    check_activation(b, "matmul");
    TASUKI_CHECK(a.dtype() == b.dtype() && a.device() == b.device(),
                 "matmul: {} of {} on {} and {} of {} on {}", name_of(a.dtype()), a.shape().text(),
                 a.device().text(), name_of(b.dtype()), b.shape().text(), b.device().text());
    const MatmulGeometry g(a.shape(), transpose_a, b.shape(), transpose_b, sums);
    Tensor c = cuda_empty(g.shape, a.dtype(), a.device());
    if (c.count() == 0) return c;
    if (g.k == 0 || g.batch == 0) {
      c.fill(0);
      return c;
    }
    // Sums are kept in float32 until the end.
    const bool adds = g.step_c == 0 && g.batch > 1;
    const Tensor result = adds ? cuda_empty(g.shape, DType::float32, a.device()) : c;
    const Tensor left = a.plain(), right = b.plain();
    MatrixProduct product{.transpose_a = transpose_a,
                          .transpose_b = transpose_b,
                          .m = g.m,
                          .n = g.n,
                          .k = g.k,
                          .operands = a.dtype(),
                          .result = result.dtype(),
                          .a = left.raw(),
                          .b = right.raw(),
                          .c = result.raw(),
                          .batch = g.batch,
                          .step_a = g.step_a,
                          .step_b = g.step_b,
                          .step_c = g.step_c};
    CudaContext& context = CudaContext::of(a.device());
    if (!adds) {
      multiply(context, product);
      return c;
    }
    product.batch = 1;
    for (std::int64_t i = 0; i < g.batch; ++i) {
      const auto bytes = static_cast<std::int64_t>(size_of(a.dtype()));
      product.a = static_cast<const std::byte*>(left.raw()) + i * g.step_a * bytes;
      product.b = static_cast<const std::byte*>(right.raw()) + i * g.step_b * bytes;
      product.beta = i == 0 ? 0.0F : 1.0F;
      multiply(context, product);
    }
    return result.to(a.dtype());
  }

 private:
  static std::byte* at(const Tensor& x, const View& view) {
    return static_cast<std::byte*>(x.raw()) +
           view.offset * static_cast<std::int64_t>(size_of(x.dtype()));
  }
};

}  // namespace

ArrayOperations& CudaBackend::arrays() {
  static CudaArrayOperations operations;
  return operations;
}

}  // namespace tasuki
