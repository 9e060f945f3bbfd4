// Softmax cross entropy and accuracy. All results stay on the device.
#include "tensor/cuda/context.hpp"
#include "tensor/cuda/cross_entropy_kernels.hpp"
#include "tensor/cuda/cuda_backend.hpp"
#include "tensor/cuda/loss_kernels.hpp"
#include "tensor/cuda/operands.hpp"

namespace tasuki {
namespace {

// `x` in plain order, for the kernels.
kernels::Scores scores_of(const Tensor& x, DType type, const Tensor& t) {
  TASUKI_CHECK(x.shape().rank() == 2 && t.shape() == Shape{x.shape()[0]},
               "scores of {} (examples x classes) and labels of {} do not fit", x.shape().text(),
               t.shape().text());
  TASUKI_CHECK((t.dtype() == DType::int32 || t.dtype() == DType::int64) && t.is_plain() &&
                   t.device() == x.device(),
               "expected labels of int32 or int64 on {}, found {} on {}", x.device().text(),
               name_of(t.dtype()), t.device().text());
  return {type, x.raw(), x.shape()[0], x.shape()[1], t.dtype(), t.raw()};
}

// As kernels::count_correct() writes them.
AccuracyResult accuracy_of(const Tensor& counts) {
  return {counts.slice(0, 1).reshape({}), counts.slice(1, 2).reshape({})};
}

}  // namespace

CrossEntropyResult CudaBackend::softmax_cross_entropy(const Tensor& scores, const Tensor& t,
                                                      AccuracyResult* accuracy) {
  check_activation(scores, "softmax cross entropy");
  const Tensor x = scores.plain();
  const Device device = x.device();
  const kernels::Scores rows = scores_of(x, x.dtype(), t);
  CrossEntropyResult result{Tensor::empty({}, DType::float32, device),
                            Tensor::empty(x.shape(), DType::float32, device),
                            Tensor::empty({}, DType::int64, device), x.dtype()};
  const Tensor row_losses = Tensor::empty({rows.items}, DType::float32, device);
  const Tensor sums = Tensor::empty({2 * kernels::loss_blocks}, DType::float64, device);
  std::int64_t* counts = nullptr;
  if (accuracy != nullptr) {
    const Tensor both = Tensor::empty({2}, DType::int64, device);
    counts = both.data<std::int64_t>();
    *accuracy = accuracy_of(both);
  }
  kernels::softmax_cross_entropy(CudaContext::of(device).launch(), rows,
                                 result.probabilities.data<float>(), result.loss.data<float>(),
                                 result.counted.data<std::int64_t>(), counts,
                                 row_losses.data<float>(), sums.data<double>());
  check_launch("softmax cross entropy");
  return result;
}

Tensor CudaBackend::softmax_cross_entropy_backward(const CrossEntropyResult& forward,
                                                   const Tensor& t, const Tensor& dy) {
  check_activation(dy, "gradient of softmax cross entropy");
  TASUKI_CHECK(dy.count() == 1, "the gradient of a loss is a scalar, not of {}", dy.shape().text());
  const Tensor& probabilities = forward.probabilities;
  Tensor dx = Tensor::empty(probabilities.shape(), forward.dtype, probabilities.device());
  kernels::softmax_cross_entropy_backward(
      launch_on(dx), scores_of(dx, dx.dtype(), t), dx.raw(), probabilities.data<float>(),
      forward.counted.data<std::int64_t>(), dy.dtype(), dy.raw());
  check_launch("gradient of softmax cross entropy");
  return dx;
}

AccuracyResult CudaBackend::count_correct(const Tensor& scores, const Tensor& t) {
  check_activation(scores, "accuracy");
  const Tensor x = scores.plain();
  const Tensor counts = Tensor::empty({2}, DType::int64, x.device());
  kernels::count_correct(launch_on(x), scores_of(x, x.dtype(), t), counts.data<std::int64_t>());
  check_launch("accuracy");
  return accuracy_of(counts);
}

}  // namespace tasuki
