#include "tasuki/tensor/image_operations.hpp"

#include "tasuki/tensor/cuda/channels_last.hpp"
#include "tasuki/tensor/cuda/context.hpp"
#include "tasuki/tensor/cuda/cuda_backend.hpp"
#include "tasuki/tensor/cuda/operands.hpp"
#include "tasuki/tensor/cuda/response_norm_kernels.hpp"

namespace tasuki {
namespace {

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
    kernels::response_norm_backward(CudaContext::of(x.device()).launch(), x.dtype(), x.raw(),
                                    upstream.raw(), static_cast<const float*>(kept.sums->data()),
                                    dx.raw(), describe(x, options));
    check_launch("gradient of local_response_norm");
    return dx;
  }
};

}  // namespace

ImageOperations& CudaBackend::images() {
  static CudaImageOperations operations;
  return operations;
}

}  // namespace tasuki
