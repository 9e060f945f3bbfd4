// Mean losses of each element.
#include "tensor/loss_operations.hpp"

#include <atomic>

#include "tensor/bad_index.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/fast_math.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/loss_means.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
namespace {

// --- sigmoid cross entropy: targets are float32 or labels ---

// The sum of max(x, 0) - t x + log(1 + exp(-|x|)) over at most a block of elements, those of
// weight 0 left out. Of a positive x it takes (1 - t) x, which does not cancel out.
TASUKI_VECTORIZE double sigmoid_losses(const float* x, const float* t, const float* weights,
                                       std::int64_t count) {
  float losses[loss_block];
  for (std::int64_t i = 0; i < count; ++i) {
    const float e = limited_exp(-__builtin_fabsf(x[i]));
    const float share = x[i] > 0 ? 1.0f - t[i] : -t[i];
    const float loss = share * x[i] + fast_log1p(e);
    losses[i] = weights[i] == 0 ? 0 : loss;
  }
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(losses[i]);
  return sum;
}

TASUKI_VECTORIZE void sigmoid_gradient(const float* x, const float* t, const float* weights,
                                       float factor, float* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float slope = (fast_sigmoid(x[i]) - t[i]) * factor;
    dx[i] = weights[i] == 0 ? 0 : slope;
  }
}

// A block of targets and of their weights, 0 for what does not count.
struct TargetBlock {
  const float* t = nullptr;
  float labels[loss_block], weights[loss_block];

  TargetBlock(const Tensor& targets, std::int64_t ignored, std::int64_t begin, std::int64_t end) {
    std::fill_n(weights, end - begin, 1.0f);
    if (targets.dtype() == DType::float32) {
      t = targets.data<float>() + begin;
      return;
    }
    t = labels;
    with_labels(targets, [&](const auto* all) {
      for (std::int64_t i = begin; i < end; ++i) {
        const bool counts = all[i] != ignored;
        weights[i - begin] = counts ? 1.0f : 0.0f;
        labels[i - begin] = counts ? static_cast<float>(all[i]) : 0.0f;
      }
    });
  }
};

// --- huber ---

TASUKI_VECTORIZE double huber_losses(const float* x, const float* t, float delta,
                                     std::int64_t count) {
  float losses[loss_block];
  for (std::int64_t i = 0; i < count; ++i) {
    const float d = x[i] - t[i], size = d < 0 ? -d : d;
    const float far = delta * (size - 0.5f * delta);
    losses[i] = size <= delta ? 0.5f * d * d : far;
  }
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(losses[i]);
  return sum;
}

TASUKI_VECTORIZE void huber_gradient(const float* x, const float* t, float delta, float factor,
                                     float* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float d = x[i] - t[i];
    const float above = d < -delta ? -delta : d;
    dx[i] = (above > delta ? delta : above) * factor;
  }
}

class CpuLossOperations final : public LossOperations {
 public:
  CountedLoss softmax_cross_entropy(const ClassScores& scores,
                                    const CrossEntropySettings& settings) override {
    return cpu_cross_entropy(scores, settings);
  }
  Tensor softmax_cross_entropy_backward(const CountedLoss& forward, const ClassScores& scores,
                                        const CrossEntropySettings& settings,
                                        const Tensor& dy) override {
    return cpu_cross_entropy_backward(forward, scores, settings, dy);
  }

  CountedLoss sigmoid_cross_entropy(const Tensor& scores, const Tensor& targets,
                                    std::int64_t ignored_label) override {
    const Tensor x = scores.plain(), t = in_float32(targets).plain();
    const FloatElements from(x);
    const std::int64_t counted =
        t.dtype() == DType::float32 ? t.count() : count_labels(t, 2, ignored_label);
    const double sum = sum_of_blocks(x.count(), [&](std::int64_t begin, std::int64_t end) {
      const TargetBlock block(t, ignored_label, begin, end);
      float buffer[loss_block];
      return sigmoid_losses(from.read(begin, end - begin, buffer), block.t, block.weights,
                            end - begin);
    });
    return mean_of(sum, counted);
  }

  Tensor sigmoid_cross_entropy_backward(const CountedLoss& forward, const Tensor& scores,
                                        const Tensor& targets, std::int64_t ignored_label,
                                        const Tensor& dy) override {
    const Tensor x = scores.plain(), t = in_float32(targets).plain();
    Tensor dx = Tensor::empty(x.shape(), x.dtype());
    const float factor = factor_of(dy, *forward.counted.data<std::int64_t>());
    for_each_slope_block(x, dx,
                         [&](const float* in, float* out, std::int64_t begin, std::int64_t end) {
                           const TargetBlock block(t, ignored_label, begin, end);
                           sigmoid_gradient(in, block.t, block.weights, factor, out, end - begin);
                         });
    return dx;
  }

  CountedLoss huber(const Tensor& predicted, const Tensor& targets, float delta) override {
    const Tensor x = predicted.plain(), t = in_float32(targets).plain();
    const FloatElements from(x);
    const double sum = sum_of_blocks(x.count(), [&](std::int64_t begin, std::int64_t end) {
      float buffer[loss_block];
      return huber_losses(from.read(begin, end - begin, buffer), t.data<float>() + begin, delta,
                          end - begin);
    });
    return {mean_of(sum, x.count()).loss, {}, {}};
  }

  Tensor huber_backward(const Tensor& predicted, const Tensor& targets, float delta,
                        const Tensor& dy) override {
    const Tensor x = predicted.plain(), t = in_float32(targets).plain();
    Tensor dx = Tensor::empty(x.shape(), x.dtype());
    const float factor = factor_of(dy, x.count());
    for_each_slope_block(
        x, dx, [&](const float* in, float* out, std::int64_t begin, std::int64_t end) {
          huber_gradient(in, t.data<float>() + begin, delta, factor, out, end - begin);
        });
    return dx;
  }

 private:
  // Calls work(values of x, where the same of dx go, begin, end) for all blocks.
  template <class Work>
  static void for_each_slope_block(const Tensor& x, const Tensor& dx, const Work& work) {
    const FloatElements from(x), to(dx);
    for_each_loss_block(x.count(), [&](std::int64_t begin, std::int64_t end) {
      float in[loss_block], out[loss_block];
      float* const slopes = to.place(begin, out);
      work(from.read(begin, end - begin, in), slopes, begin, end);
      to.write(begin, end - begin, slopes);
    });
  }
};

}  // namespace

std::int64_t count_labels(const Tensor& labels, std::int64_t classes, std::int64_t ignored) {
  TASUKI_CHECK(labels.dtype() == DType::int32 || labels.dtype() == DType::int64,
               "expected labels of int32 or int64, found {}", name_of(labels.dtype()));
  return with_labels(labels, [&](const auto* all) {
    std::atomic<std::int64_t> first_bad = labels.count();
    const double counted = sum_of_blocks(labels.count(), [&](std::int64_t begin, std::int64_t end) {
      std::int64_t here = 0;
      for (std::int64_t i = begin; i < end; ++i) {
        if (all[i] == ignored) continue;
        ++here;
        if (all[i] >= 0 && all[i] < classes) continue;
        std::int64_t before = first_bad;
        while (i < before && !first_bad.compare_exchange_weak(before, i)) {
        }
      }
      return static_cast<double>(here);
    });
    if (const std::int64_t i = first_bad; i < labels.count())
      throw bad_label(all[i], i, classes, ignored);
    return static_cast<std::int64_t>(counted);
  });
}

CountedLoss mean_of(double sum, std::int64_t counted) {
  CountedLoss result{
      Tensor::zeros({}), Tensor::full({}, static_cast<double>(counted), DType::int64), {}};
  if (counted > 0)
    *result.loss.data<float>() = static_cast<float>(sum / static_cast<double>(counted));
  return result;
}

float factor_of(const Tensor& dy, std::int64_t counted) {
  return static_cast<float>(dy.item()) / static_cast<float>(std::max<std::int64_t>(counted, 1));
}

LossOperations& CpuBackend::losses() {
  static CpuLossOperations operations;
  return operations;
}

}  // namespace tasuki
