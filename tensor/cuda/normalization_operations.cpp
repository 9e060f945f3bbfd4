#include "tensor/normalization_operations.hpp"

#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/normalization_kernels.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {
namespace {

kernels::Axis axis_of(const AxisView& view) {
  return {view.outer, view.length, view.inner};
}

kernels::NormArray array_of(const NormRows& rows) {
  return {rows.items, rows.groups, rows.channels, rows.pixels};
}

class CudaNormalizationOperations final : public NormalizationOperations {
 public:
  Tensor softmax(const Tensor& source, int axis, bool logarithm) override {
    check_activation(source, "softmax");
    const AxisView view(source.shape(), axis);
    const Tensor x = source.plain();
    Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
    if (x.count() == 0) return y;
    kernels::softmax(launch_on(x), x.dtype(), axis_of(view), x.raw(), y.raw(), logarithm);
    check_launch("softmax");
    return y;
  }

  Tensor softmax_gradient(const Tensor& result, const Tensor& upstream, int axis,
                          bool logarithm) override {
    check_alike(result, upstream, "gradient of softmax");
    const AxisView view(result.shape(), axis);
    const Tensor y = result.plain(), dy = upstream.plain();
    Tensor dx = Tensor::empty(y.shape(), y.dtype(), y.device());
    if (y.count() == 0) return dx;
    kernels::softmax_gradient(launch_on(y), y.dtype(), axis_of(view), y.raw(), dy.raw(), dx.raw(),
                              logarithm);
    check_launch("gradient of softmax");
    return dx;
  }

  NormResult normalize(const Tensor& source, const NormRows& rows, const Tensor& gamma,
                       const Tensor& beta, float eps) override {
    check_activation(source, "normalisation");
    check_norm(source, rows, gamma, beta);
    const Device device = source.device();
    check_parameter(gamma, device, "normalisation");
    check_parameter(beta, device, "normalisation");
    const Tensor x = source.plain();
    NormResult result{Tensor::empty(x.shape(), x.dtype(), device),
                      Tensor::empty({rows.rows(), 2}, DType::float32, device)};
    if (x.count() == 0) return result;
    kernels::normalize(CudaContext::of(device).launch(), x.dtype(), array_of(rows), x.raw(),
                       gamma.data<float>(), beta.data<float>(), eps, result.y.raw(),
                       result.statistics.data<float>());
    check_launch("normalisation");
    return result;
  }

  Tensor normalize_gradient(const Tensor& source, const NormRows& rows, const Tensor& statistics,
                            const Tensor& upstream, const Tensor& gamma, const Tensor& dgamma,
                            const Tensor& dbeta, bool accumulate, const Tensor& added) override {
    check_alike(source, upstream, "gradient of a normalisation");
    if (added) check_alike(source, added, "gradient of a normalisation");
    check_norm(source, rows, dgamma, dbeta);
    const Device device = source.device();
    check_parameter(dgamma, device, "gradient of a normalisation");
    check_parameter(dbeta, device, "gradient of a normalisation");
    const Tensor x = source.plain(), dy = upstream.plain(), sum = added ? added.plain() : added;
    Tensor dx = Tensor::empty(x.shape(), x.dtype(), device);
    if (x.count() == 0) {
      if (!accumulate) dgamma.fill(0);
      if (!accumulate) dbeta.fill(0);
      return dx;
    }
    const Launch launch = CudaContext::of(device).launch();
    const kernels::NormArray array = array_of(rows);
    const Tensor scratch = Tensor::empty(
        {kernels::norm_parts(launch, array), 2 * rows.all_channels()}, DType::float32, device);
    kernels::normalize_parameters(launch, x.dtype(), array, x.raw(), statistics.data<float>(),
                                  dy.raw(), dgamma.data<float>(), dbeta.data<float>(), accumulate,
                                  scratch.data<float>());
    kernels::normalize_gradient(launch, x.dtype(), array, x.raw(), statistics.data<float>(),
                                dy.raw(), gamma.data<float>(), sum ? sum.raw() : nullptr, dx.raw());
    check_launch("gradient of a normalisation");
    return dx;
  }
};

}  // namespace

NormalizationOperations& CudaBackend::normalization() {
  static CudaNormalizationOperations operations;
  return operations;
}

}  // namespace tasuki
