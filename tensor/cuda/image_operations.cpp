#include "tensor/image_operations.hpp"

#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/image_passes.hpp"
#include "tensor/cuda/normalization_kernels.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/resize_kernels.hpp"

namespace tasuki {
namespace {

kernels::ResizePlanes planes_of(DType type, const Shape& x, std::int64_t height, std::int64_t width,
                                const ResizeOptions& options) {
  return {type, x[0] * x[1], {x[2], height, options}, {x[3], width, options}};
}

// s of ResponseNormOptions, float32, laid out as x.
struct ResponseNormWorkspace final : Workspace {
  std::shared_ptr<Storage> sums;
};

kernels::ResponseNorm describe(const Tensor& x, const ResponseNormOptions& options) {
  const Shape& shape = x.shape();
  const std::int64_t pixels = shape[2] * shape[3];
  const bool is_last = is_channels_last(x);
  return {.count = x.count(),
          .channels = shape[1],
          .step = is_last ? 1 : pixels,
          .reach = options.window / 2,
          .k = options.k,
          .alpha = options.alpha,
          .beta = options.beta};
}

class CudaImageOperations final : public ImageOperations {
 public:
  Tensor local_response_norm(const Tensor& x, const ResponseNormOptions& options,
                             std::shared_ptr<Workspace>* workspace) override {
    check_response_norm(x.shape(), options);
    check_activation(x, "local_response_norm");
    CudaContext& context = CudaContext::of(x.device());
    Tensor y = cuda_empty_like(x);
    auto kept = std::make_shared<ResponseNormWorkspace>();
    if (workspace != nullptr && x.count() > 0)
      kept->sums = context.allocate(static_cast<std::size_t>(x.count()) * sizeof(float));
    kernels::response_norm(context.launch(), x.dtype(), x.raw(), y.raw(),
                           kept->sums ? static_cast<float*>(kept->sums->data()) : nullptr,
                           describe(x, options));
    check_launch("local_response_norm");
    if (workspace != nullptr) *workspace = std::move(kept);
    return y;
  }

  Tensor local_response_norm_backward(const Tensor& x, const Tensor& dy,
                                      const ResponseNormOptions& options,
                                      const Workspace& workspace) override {
    check_response_norm(x.shape(), options);
    check_alike(x, dy, "gradient of local_response_norm");
    Tensor dx = cuda_empty_like(x);
    if (x.count() == 0) return dx;
    const auto& kept = dynamic_cast<const ResponseNormWorkspace&>(workspace);
    const Tensor upstream = cuda_in_layout(dy, x.layout());
    kernels::response_norm_backward(launch_on(x), x.dtype(), x.raw(), upstream.raw(),
                                    static_cast<const float*>(kept.sums->data()), dx.raw(),
                                    describe(x, options));
    check_launch("gradient of local_response_norm");
    return dx;
  }

  void add_bias(const Tensor& y, const Tensor& b) override {
    const Shape& shape = y.shape();
    check_activation(y, "bias of images");
    check_weights(b, y.device(), y.dtype(), "bias of images");
    TASUKI_CHECK(shape.rank() == 4 && b.shape() == Shape{shape[1]},
                 "a bias of {} does not fit images of {}", b.shape().text(), shape.text());
    if (y.count() == 0) return;
    add_image_bias(y, b, y.dtype(), /*relu=*/false);
  }

  Tensor resize(const Tensor& source, std::int64_t height, std::int64_t width,
                const ResizeOptions& options) override {
    check_activation(source, "resized images");
    const Tensor x = source.plain();
    const Shape& shape = x.shape();
    Tensor y = Tensor::empty({shape[0], shape[1], height, width}, x.dtype(), x.device());
    kernels::resize(launch_on(x), planes_of(x.dtype(), shape, height, width, options), x.raw(),
                    y.raw());
    check_launch("resize");
    return y;
  }

  Tensor resize_backward(const Tensor& upstream, const Shape& shape,
                         const ResizeOptions& options) override {
    check_activation(upstream, "gradient of resized images");
    const Tensor dy = upstream.plain();
    Tensor dx = Tensor::empty(shape, dy.dtype(), dy.device());
    kernels::resize_backward(launch_on(dy),
                             planes_of(dy.dtype(), shape, dy.shape()[2], dy.shape()[3], options),
                             dy.raw(), dx.raw());
    check_launch("resize_backward");
    return dx;
  }

  Tensor add_noise(const Tensor& x, Noise kind, float scale, const Tensor& seed,
                   const Tensor& example_ids) override {
    check_activation(x, "noise");
    const Shape& shape = x.shape();
    TASUKI_CHECK(shape.rank() >= 1 && shape[0] == example_ids.count() && seed.count() == 1,
                 "noise: {} example numbers and {} seeds for a batch of {}", example_ids.count(),
                 seed.count(), shape.text());
    TASUKI_CHECK(seed.device() == x.device() && example_ids.device() == x.device(),
                 "noise: seed and example numbers on {} and {} for a batch on {}",
                 seed.device().text(), example_ids.device().text(), x.device().text());
    Tensor y = cuda_empty_like(x);
    kernels::ExampleOrder order{shape.count_per_item(), 1, is_channels_last(x)};
    if (order.is_channels_last) {
      order.channels = shape[1];
      order.pixels = shape[2] * shape[3];
    }
    kernels::add_noise(launch_on(x), x.dtype(), x.raw(), y.raw(), shape[0], order,
                       kind == Noise::normal, scale, seed.data<std::int64_t>(),
                       example_ids.data<std::int64_t>());
    check_launch("noise");
    return y;
  }
};

}  // namespace

ImageOperations& CudaBackend::images() {
  static CudaImageOperations operations;
  return operations;
}

}  // namespace tasuki
