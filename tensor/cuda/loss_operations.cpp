// Mean losses. All results stay on the device.
#include "tensor/loss_operations.hpp"

#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/loss_kernels.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {
namespace {

void check_targets(const Tensor& t, const Tensor& x, const char* what) {
  TASUKI_CHECK(
      (t.dtype() == DType::int32 || t.dtype() == DType::int64 || t.dtype() == DType::float32) &&
          t.device() == x.device(),
      "{}: expected targets of float32, int32 or int64 on {}, found {} on {}", what,
      x.device().text(), name_of(t.dtype()), t.device().text());
}

// `x`: the scores in plain order.
kernels::GeneralScores general(const Tensor& x, const ClassScores& scores,
                               const CrossEntropySettings& settings) {
  const Tensor& labels = scores.labels;
  check_targets(labels, x, "softmax cross entropy");
  TASUKI_CHECK(labels.dtype() != DType::float32, "softmax cross entropy: labels are integers");
  if (settings.class_weights)
    check_parameter(settings.class_weights, x.device(), "softmax cross entropy");
  return {
      x.dtype(),          x.raw(),
      scores.outer,       scores.classes,
      scores.inner,       labels.dtype(),
      labels.raw(),       settings.ignored_label,
      settings.smoothing, settings.class_weights ? settings.class_weights.data<float>() : nullptr};
}

// `x` and `t`: in plain order.
kernels::TargetedScores targeted(const Tensor& x, const Tensor& t, std::int64_t ignored_label,
                                 const char* what) {
  check_activation(x, what);
  check_targets(t, x, what);
  return {x.dtype(), x.raw(), x.count(), t.dtype(), t.raw(), ignored_label};
}

CountedLoss empty_loss(Device device) {
  return {Tensor::empty({}, DType::float32, device), Tensor::empty({}, DType::int64, device), {}};
}

Tensor scratch_on(Device device) {
  return Tensor::empty({2 * kernels::loss_blocks}, DType::float64, device);
}

class CudaLossOperations final : public LossOperations {
 public:
  CountedLoss softmax_cross_entropy(const ClassScores& scores,
                                    const CrossEntropySettings& settings) override {
    check_activation(scores.x, "softmax cross entropy");
    const Tensor x = scores.x.plain();
    CountedLoss result = empty_loss(x.device());
    const Shape positions{scores.outer * scores.inner};
    result.saved = Tensor::empty({2, positions.count()}, DType::float32, x.device());
    const Tensor losses = Tensor::empty(positions, DType::float32, x.device());
    kernels::general_cross_entropy(launch_on(x), general(x, scores, settings),
                                   result.loss.data<float>(), result.counted.data<std::int64_t>(),
                                   result.saved.data<float>(), losses.data<float>(),
                                   scratch_on(x.device()).data<double>());
    check_launch("softmax cross entropy");
    return result;
  }

  Tensor softmax_cross_entropy_backward(const CountedLoss& forward, const ClassScores& scores,
                                        const CrossEntropySettings& settings,
                                        const Tensor& dy) override {
    const Tensor x = scores.x.plain();
    const Tensor upstream = dy.to(DType::float32);
    Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
    kernels::general_cross_entropy_backward(
        launch_on(x), general(x, scores, settings), forward.saved.data<float>(),
        forward.counted.data<std::int64_t>(), upstream.data<float>(), dx.raw());
    check_launch("gradient of softmax cross entropy");
    return dx;
  }

  CountedLoss sigmoid_cross_entropy(const Tensor& scores, const Tensor& targets,
                                    std::int64_t ignored_label) override {
    const Tensor x = scores.plain(), t = targets.plain(), sums = scratch_on(x.device());
    CountedLoss result = empty_loss(x.device());
    kernels::sigmoid_cross_entropy(
        launch_on(x), targeted(x, t, ignored_label, "sigmoid cross entropy"),
        result.loss.data<float>(), result.counted.data<std::int64_t>(), sums.data<double>());
    check_launch("sigmoid cross entropy");
    return result;
  }

  Tensor sigmoid_cross_entropy_backward(const CountedLoss& forward, const Tensor& scores,
                                        const Tensor& targets, std::int64_t ignored_label,
                                        const Tensor& dy) override {
    const Tensor x = scores.plain(), t = targets.plain(), upstream = dy.to(DType::float32);
    Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
    kernels::sigmoid_cross_entropy_backward(
        launch_on(x), targeted(x, t, ignored_label, "gradient of sigmoid cross entropy"),
        forward.counted.data<std::int64_t>(), upstream.data<float>(), dx.raw());
    check_launch("gradient of sigmoid cross entropy");
    return dx;
  }

  CountedLoss huber(const Tensor& predicted, const Tensor& targets, float delta) override {
    const Tensor x = predicted.plain(), t = targets.plain(), sums = scratch_on(x.device());
    const CountedLoss result = empty_loss(x.device());
    kernels::huber(launch_on(x), targeted(x, t, -1, "huber loss"), delta, result.loss.data<float>(),
                   result.counted.data<std::int64_t>(), sums.data<double>());
    check_launch("huber loss");
    return {result.loss, {}, {}};
  }

  Tensor huber_backward(const Tensor& predicted, const Tensor& targets, float delta,
                        const Tensor& dy) override {
    const Tensor x = predicted.plain(), t = targets.plain(), upstream = dy.to(DType::float32);
    Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
    kernels::huber_backward(launch_on(x), targeted(x, t, -1, "gradient of huber loss"), delta,
                            upstream.data<float>(), dx.raw());
    check_launch("gradient of huber loss");
    return dx;
  }
};

}  // namespace

LossOperations& CudaBackend::losses() {
  static CudaLossOperations operations;
  return operations;
}

}  // namespace tasuki
