// Convolutions by cuDNN. Weights are plain as a rule, and their gradients plain float32; if the
// plan uses another type or order, they are converted, and so are activations.
#include "core/error.hpp"
#include "tensor/cuda/channels_last.hpp"
#include "tensor/cuda/convolution_plan.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/image_passes.hpp"
#include "tensor/cuda/operands.hpp"
#include "tensor/cuda/step_filters.hpp"

namespace tasuki {
namespace {

constexpr float one = 1, zero = 0;

// cuDNN's kernels load 16 bytes at once. Memory from the pool is aligned to more, but views into it
// need not be.
bool is_aligned(const Tensor& x) {
  return reinterpret_cast<std::uintptr_t>(x.raw()) % 16 == 0;
}

Tensor copy_as(const Tensor& x, DType type, const std::shared_ptr<const Layout>& layout) {
  Tensor copy = cuda_empty(x.shape(), type, x.device(), layout);
  copy.copy_from(x);
  return copy;
}

// An activation in the plan's type and layout.
Tensor operand(const Tensor& x, const ConvolutionPlan& plan) {
  if (x.dtype() != plan.type()) return copy_as(x, plan.type(), plan.layout());
  Tensor in = cuda_in_layout(x, plan.layout());
  return is_aligned(in) ? in : copy_as(in, in.dtype(), in.layout());
}

// A plan's result for operands of `type`.
Tensor result(const Tensor& y, DType type) {
  return y.dtype() == type ? y : copy_as(y, type, y.layout());
}

// An activation of images, with the plan's number of channels.
Tensor image_operand(const CudaContext& context, const Tensor& x, const ConvolutionPlan& plan) {
  const Shape& shape = x.shape();
  if (plan.inputs() == shape[1]) return operand(x, plan);
  const Tensor from = x.dtype() == plan.type() ? x : copy_as(x, plan.type(), x.layout());
  Tensor padded = cuda_empty({shape[0], plan.inputs(), shape[2], shape[3]}, plan.type(), x.device(),
                             plan.layout());
  kernels::pad_channels(context.launch(), plan.type(), padded.raw(), from.raw(),
                        {shape[0], shape[1], shape[2] * shape[3], plan.inputs()},
                        is_channels_last(from));
  check_launch("pad_channels");
  return padded;
}

kernels::FilterSize size_of_filter(const Shape& w, const ConvolutionPlan& plan,
                                   const ConvolutionGeometry& geometry) {
  return {w[0], w[1], w[2] * w[3], w[1] + plan.inputs() - geometry.x[1]};
}

// Whether a filter in the plan's order differs from a plain one; with a single place and no more
// inputs it does not.
bool is_reordered(const Shape& w, const ConvolutionPlan& plan,
                  const ConvolutionGeometry& geometry) {
  return plan.layout() != nullptr && (w[2] * w[3] > 1 || plan.inputs() != geometry.x[1]);
}

Shape filter_shape(const Shape& w, const ConvolutionPlan& plan,
                   const ConvolutionGeometry& geometry) {
  return {w[0], size_of_filter(w, plan, geometry).padded_inputs, w[2], w[3]};
}

// Weights in the plan's type and layout; `given` as a parameter or as another pass has used them.
Tensor filter(const CudaContext& context, const Tensor& given, const ConvolutionPlan& plan,
              const ConvolutionGeometry& geometry) {
  const bool is_last = is_reordered(given.shape(), plan, geometry);
  const std::shared_ptr<const Layout> needed = is_last ? plan.layout() : nullptr;
  if (plan.type() == given.dtype() && given.layout() == needed && is_aligned(given) &&
      plan.inputs() == geometry.x[1])
    return given;
  const Tensor w = given.plain();
  const kernels::FilterSize size = size_of_filter(w.shape(), plan, geometry);
  const Shape shape = filter_shape(w.shape(), plan, geometry);
  if (is_last && has_16_bits(w.dtype()) && w.dtype() == plan.type())
    if (Tensor converted = filter_of_step(w, size, shape); converted) return converted;
  Tensor made = cuda_empty(shape, plan.type(), w.device(), needed);
  kernels::convert_filter(context.launch(), plan.type(), made.raw(), w.dtype(), w.raw(), size,
                          is_last);
  check_launch("convert_filter");
  return made;
}

}  // namespace

Tensor CudaBackend::conv2d(const Tensor& x, const Tensor& given, const Tensor& b,
                           const Conv2dOptions& options, Tensor* prepared, bool relu) {
  const Tensor w = given.plain();
  if (prepared != nullptr) *prepared = w;
  const ConvolutionGeometry geometry(x.shape(), w.shape(), options);
  check_activation(x, "conv2d");
  check_weights(w, x.device(), x.dtype(), "conv2d");
  TASUKI_CHECK(!b || b.shape() == Shape{w.shape()[0]}, "{}: a bias of {}", geometry.text(),
               b.shape().text());
  if (b) check_weights(b, x.device(), x.dtype(), "conv2d");
  if (geometry.y.count() == 0) return cuda_empty(geometry.y, x.dtype(), x.device());

  CudaContext& context = CudaContext::of(x.device());
  const ConvolutionWork work{ConvolutionPass::forward, geometry, x.dtype()};
  bool is_fused = false;  // with bias and ReLU
  const Tensor y = with_convolution_plan(context, work, [&](const ConvolutionPlan& plan) {
    const Tensor in = image_operand(context, x, plan), weights = filter(context, w, plan, geometry);
    if (prepared != nullptr && weights.shape() == w.shape()) *prepared = weights;
    Tensor made = cuda_empty(geometry.y, plan.type(), x.device(), plan.layout());
    // A bias that is still to be rounded would cost cuDNN's call a launch, as many as two passes
    // have.
    const bool may_fuse =
        relu && b && b.dtype() == x.dtype() && plan.type() == x.dtype() && is_aligned(b);
    plan.run(context, {"cudnnConvolutionForward"},
             [&](const ConvolutionPlan::Choice& choice, void* workspace) {
               const auto algorithm = static_cast<cudnnConvolutionFwdAlgo_t>(choice.algorithm);
               const auto convolve = [&] {
                 return cudnnConvolutionForward(cudnn_handle(context), &one, plan.x(), in.raw(),
                                                plan.w(), weights.raw(), choice.convolution.get(),
                                                algorithm, workspace, choice.workspace_bytes, &zero,
                                                plan.y(), made.raw());
               };
               const auto convolve_fused = [&](cudnnActivationDescriptor_t activation,
                                               const Tensor& added) {
                 return cudnnConvolutionBiasActivationForward(
                     cudnn_handle(context), &one, plan.x(), in.raw(), plan.w(), weights.raw(),
                     choice.convolution.get(), algorithm, workspace, choice.workspace_bytes, &zero,
                     plan.y(), made.raw(), plan.bias(), added.raw(), activation, plan.y(),
                     made.raw());
               };
               is_fused = false;
               if (!may_fuse) return convolve();
               FusionTrial& fusion = *choice.fusion;
               const auto name = [&] {
                 return fmt::format("{} in {}, forward, algorithm {}", geometry.text(),
                                    name_of(x.dtype()), choice.algorithm);
               };
               if (fusion.is_due(context))
                 fusion.run(context, {made, convolve_fused,
                                      [&] {
                                        if (convolve() != CUDNN_STATUS_SUCCESS) return false;
                                        add_image_bias(made, b, x.dtype(), relu);
                                        return true;
                                      },
                                      name()});
               const cudnnActivationDescriptor_t activation = fusion.relu();
               if (activation == nullptr) return convolve();
               const cudnnStatus_t answer = convolve_fused(activation, b);
               is_fused = answer == CUDNN_STATUS_SUCCESS;
               if (is_fused) return answer;
               fusion.give_up(context, name(), answer);
               return convolve();
             });
    return made;
  });
  if (is_fused) return result(y, x.dtype());
  if (b) add_image_bias(y, b, x.dtype(), relu);
  return result(relu && !b ? unary(Unary::relu, y, 0) : y, x.dtype());
}

Tensor CudaBackend::conv2d_backward_data(const Tensor& dy, const Tensor& given,
                                         const Shape& x_shape, const Conv2dOptions& options) {
  const ConvolutionGeometry geometry(x_shape, given.shape(), options);
  check_activation(dy, "conv2d_backward_data");
  if (given.is_plain()) check_weights(given, dy.device(), dy.dtype(), "conv2d_backward_data");
  TASUKI_CHECK(dy.shape() == geometry.y, "{}: a gradient of {}", geometry.text(),
               dy.shape().text());
  if (x_shape.count() == 0) return cuda_empty(x_shape, dy.dtype(), dy.device());

  CudaContext& context = CudaContext::of(dy.device());
  const ConvolutionWork work{ConvolutionPass::backward_data, geometry, dy.dtype()};
  const Tensor dx = with_convolution_plan(context, work, [&](const ConvolutionPlan& plan) {
    const Tensor upstream = operand(dy, plan), weights = filter(context, given, plan, geometry);
    Tensor made = cuda_empty(x_shape, plan.type(), dy.device(), plan.layout());
    plan.run(context, {"cudnnConvolutionBackwardData"},
             [&](const ConvolutionPlan::Choice& choice, void* workspace) {
               return cudnnConvolutionBackwardData(
                   cudnn_handle(context), &one, plan.w(), weights.raw(), plan.y(), upstream.raw(),
                   choice.convolution.get(),
                   static_cast<cudnnConvolutionBwdDataAlgo_t>(choice.algorithm), workspace,
                   choice.workspace_bytes, &zero, plan.x(), made.raw());
             });
    return made;
  });
  return result(dx, dy.dtype());
}

void CudaBackend::conv2d_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                          const Conv2dOptions& options, bool accumulate) {
  const ConvolutionGeometry geometry(x.shape(), dw.shape(), options);
  check_activation(x, "conv2d_backward_weights");
  check_parameter(dw, x.device(), "conv2d_backward_weights");
  TASUKI_CHECK(dy.shape() == geometry.y && dy.dtype() == x.dtype() && dy.device() == x.device(),
               "{} of {}: a gradient of {} of {}", geometry.text(), name_of(x.dtype()),
               dy.shape().text(), name_of(dy.dtype()));
  if (x.count() == 0) {
    if (!accumulate) fill(dw, 0);
    return;
  }

  CudaContext& context = CudaContext::of(x.device());
  const ConvolutionWork task{ConvolutionPass::backward_weights, geometry, x.dtype()};
  with_convolution_plan(context, task, [&](const ConvolutionPlan& plan) {
    const Tensor in = image_operand(context, x, plan), upstream = operand(dy, plan);
    // cuDNN writes a gradient in its operands' type and order (the plan's).
    const bool is_last = is_reordered(dw.shape(), plan, geometry);
    const bool is_direct = plan.type() == DType::float32 && !is_last && is_aligned(dw);
    const Tensor gradient = is_direct
                                ? dw
                                : cuda_empty(filter_shape(dw.shape(), plan, geometry), plan.type(),
                                             dw.device(), is_last ? plan.layout() : nullptr);
    const float* const beta = is_direct && accumulate ? &one : &zero;
    AlgorithmTrials::Work work{"cudnnConvolutionBackwardFilter"};
    if (beta == &one) {
      work.sum = dw.raw();
      work.bytes = dw.bytes();
    }
    plan.run(context, work, [&](const ConvolutionPlan::Choice& choice, void* workspace) {
      return cudnnConvolutionBackwardFilter(
          cudnn_handle(context), &one, plan.x(), in.raw(), plan.y(), upstream.raw(),
          choice.convolution.get(), static_cast<cudnnConvolutionBwdFilterAlgo_t>(choice.algorithm),
          workspace, choice.workspace_bytes, beta, plan.w(), gradient.raw());
    });
    if (is_direct) return;
    kernels::convert_filter_gradient(context.launch(), dw.data<float>(), gradient.dtype(),
                                     gradient.raw(), size_of_filter(dw.shape(), plan, geometry),
                                     is_last, accumulate);
    check_launch("convert_filter_gradient");
  });
}

}  // namespace tasuki
