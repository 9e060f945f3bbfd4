#include "tensor/elementwise_operations.hpp"

#include <algorithm>
#include <array>

#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/elementwise_kernels.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {
namespace {

// Operands in the order in which a kernel walks them, and its result.
template <int operands>
struct Combination {
  std::array<Tensor, operands> inputs;
  Tensor y;

  Combination(const char* what, const std::array<Tensor, operands>& given) : inputs(given) {
    std::array<Shape, operands> shapes;
    for (std::size_t i = 0; i < operands; ++i) {
      check_activation(given[i], what);
      TASUKI_CHECK(given[i].dtype() == given[0].dtype() && given[i].device() == given[0].device(),
                   "{}: {} of {} on {} and {} of {} on {}", what, name_of(given[0].dtype()),
                   given[0].shape().text(), given[0].device().text(), name_of(given[i].dtype()),
                   given[i].shape().text(), given[i].device().text());
      shapes[i] = given[i].shape();
    }
    const Shape shape = broadcast_shape(shapes, what);
    is_broadcast_ = !std::ranges::all_of(shapes, [&](const Shape& each) { return each == shape; });
    const auto layout = is_broadcast_ ? nullptr : given[0].layout();
    for (Tensor& each : inputs) each = cuda_in_layout(each, layout);
    y = cuda_empty(shape, given[0].dtype(), given[0].device(), layout);
    if (!is_broadcast_) return;
    std::array<Strides, operands> strides;
    for (std::size_t i = 0; i < operands; ++i) strides[i] = broadcast_strides(shapes[i], shape);
    loop_ = StridedLoop<operands>(shape, strides);
  }

  // nullptr if all arrays have the same shape.
  const StridedLoop<operands>* loop() const { return is_broadcast_ ? &loop_ : nullptr; }

 private:
  bool is_broadcast_ = false;
  StridedLoop<operands> loop_;
};

class CudaElementwiseOperations final : public ElementwiseOperations {
 public:
  Tensor map(Map f, const Tensor& x, float p, float q) override {
    check_activation(x, "element-wise function");
    Tensor y = cuda_empty_like(x);
    kernels::map(launch_on(x), f, x.dtype(), x.raw(), y.raw(), p, q, x.count());
    check_launch("element-wise function");
    return y;
  }

  Tensor map_gradient(Map f, const Tensor& kept, const Tensor& dy, float p, float q) override {
    check_alike(kept, dy, "gradient of an element-wise function");
    const Tensor upstream = cuda_in_layout(dy, kept.layout());
    Tensor dx = cuda_empty_like(kept);
    kernels::map_gradient(launch_on(kept), f, kept.dtype(), kept.raw(), upstream.raw(), dx.raw(), p,
                          q, kept.count());
    check_launch("gradient of an element-wise function");
    return dx;
  }

  Tensor binary(Binary f, const Tensor& a, const Tensor& b) override {
    const Combination<2> c("function of two arrays", {a, b});
    kernels::binary(launch_on(a), f, a.dtype(), c.inputs[0].raw(), c.inputs[1].raw(), c.y.raw(),
                    c.loop(), c.y.count());
    check_launch("function of two arrays");
    return c.y;
  }

  Tensor ternary(Ternary f, const Tensor& first, const Tensor& second,
                 const Tensor& third) override {
    const Combination<3> c("function of three arrays", {first, second, third});
    kernels::ternary(launch_on(first), f, first.dtype(), c.inputs[0].raw(), c.inputs[1].raw(),
                     c.inputs[2].raw(), c.y.raw(), c.loop(), c.y.count());
    check_launch("function of three arrays");
    return c.y;
  }
};

}  // namespace

ElementwiseOperations& CudaBackend::elementwise() {
  static CudaElementwiseOperations operations;
  return operations;
}

}  // namespace tasuki
