// Max and average pooling by our own kernels: cuDNN has no window that reaches farther over the far
// edge than over the near one.
#include <limits>

#include "core/error.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/pooling_kernels.hpp"
#include "tensor/geometry.hpp"

namespace tasuki {
namespace {

// Data of the forward pass that the backward pass needs.
struct PoolWorkspace final : Workspace {
  std::shared_ptr<const Layout> layout;  // of x and y
  std::shared_ptr<Storage> places;       // positions of the largest elements, for max pooling
  Tensor relu_of;                        // x, for the average of max(x, 0)
};

kernels::PoolingSize size_of_pooling(const PoolingGeometry& geometry, bool is_last) {
  const auto& [x, y, o, end_h, end_w] = geometry;
  TASUKI_CHECK(o.kernel_h * o.kernel_w <= std::numeric_limits<std::uint16_t>::max(),
               "{}: a window of more than 65535 elements", geometry.text());
  const auto narrow = [](std::int64_t value) { return static_cast<int>(value); };
  return {.items = x[0],
          .channels = x[1],
          .height = x[2],
          .width = x[3],
          .out_height = y[2],
          .out_width = y[3],
          .kernel_h = narrow(o.kernel_h),
          .kernel_w = narrow(o.kernel_w),
          .stride_h = narrow(o.stride_h),
          .stride_w = narrow(o.stride_w),
          .pad_h = narrow(o.pad_h),
          .pad_w = narrow(o.pad_w),
          .channels_last = is_last};
}

// Averages of max(x, 0) with `relu`.
Tensor pool(const Tensor& x, const Pool2dOptions& options, std::shared_ptr<Workspace>* workspace,
            bool relu) {
  const PoolingGeometry geometry(x.shape(), options);
  check_activation(x, "pool2d");
  if (workspace != nullptr) *workspace = nullptr;
  if (geometry.y.count() == 0) return cuda_empty(geometry.y, x.dtype(), x.device());

  CudaContext& context = CudaContext::of(x.device());
  const kernels::PoolingSize size = size_of_pooling(geometry, is_channels_last(x));
  Tensor y = cuda_empty(geometry.y, x.dtype(), x.device(), x.layout());
  auto kept = std::make_shared<PoolWorkspace>();
  kept->layout = x.layout();
  if (options.kind == PoolKind::max) {
    if (workspace != nullptr)
      kept->places = context.allocate(static_cast<std::size_t>(y.count()) * sizeof(std::uint16_t));
    void* const places = kept->places ? kept->places->data() : nullptr;
    kernels::max_pool(context.launch(), x.dtype(), y.raw(), x.raw(),
                      static_cast<std::uint16_t*>(places), size);
  } else {
    kernels::average_pool(context.launch(), x.dtype(), y.raw(), x.raw(), size, relu);
    if (relu) kept->relu_of = x;
  }
  check_launch("pooling");
  if (workspace != nullptr) *workspace = std::move(kept);
  return y;
}

}  // namespace

Tensor CudaBackend::pool2d(const Tensor& x, const Pool2dOptions& options,
                           std::shared_ptr<Workspace>* workspace) {
  return pool(x, options, workspace, /*relu=*/false);
}

Tensor CudaBackend::relu_pool2d(const Tensor& x, const Pool2dOptions& options,
                                std::shared_ptr<Workspace>* workspace) {
  if (options.kind != PoolKind::average) return Backend::relu_pool2d(x, options, workspace);
  return pool(x, options, workspace, /*relu=*/true);
}

Tensor CudaBackend::pool2d_backward(const Tensor& dy, const Shape& x_shape,
                                    const Pool2dOptions& options, const Workspace* workspace) {
  const PoolingGeometry geometry(x_shape, options);
  check_activation(dy, "pool2d_backward");
  TASUKI_CHECK(dy.shape() == geometry.y, "{}: a gradient of {}", geometry.text(),
               dy.shape().text());
  if (x_shape.count() == 0) return cuda_empty(x_shape, dy.dtype(), dy.device());
  const auto* const kept = dynamic_cast<const PoolWorkspace*>(workspace);
  TASUKI_CHECK(kept != nullptr, "{}: the forward pass kept nothing for the backward pass",
               geometry.text());

  CudaContext& context = CudaContext::of(dy.device());
  const kernels::PoolingSize size = size_of_pooling(geometry, kept->layout != nullptr);
  const Tensor upstream = cuda_in_layout(dy, kept->layout);
  Tensor dx = cuda_empty(x_shape, dy.dtype(), dy.device(), kept->layout);
  if (options.kind == PoolKind::max)
    kernels::max_pool_backward(context.launch(), dy.dtype(), dx.raw(), upstream.raw(),
                               static_cast<const std::uint16_t*>(kept->places->data()), size);
  else
    kernels::average_pool_backward(context.launch(), dy.dtype(), dx.raw(), upstream.raw(),
                                   kept->relu_of.raw(), size);
  check_launch("pooling's gradient");
  return dx;
}

Tensor CudaBackend::relu_pool2d_backward(const Tensor& dy, const Shape& x_shape,
                                         const Pool2dOptions& options, const Workspace* workspace) {
  if (options.kind != PoolKind::average)
    return Backend::relu_pool2d_backward(dy, x_shape, options, workspace);
  return pool2d_backward(dy, x_shape, options, workspace);
}

}  // namespace tasuki
