// Mean losses. Sums are made of blocks of fixed size, so that their bits do not depend on the
// number of threads.
#include "tasuki/tensor/loss_operations.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tasuki/tensor/cpu/cpu_backend.hpp"
#include "tasuki/tensor/cpu/fast_math.hpp"
#include "tasuki/tensor/cpu/parallel.hpp"
#include "tasuki/tensor/cpu/softmax_rows.hpp"
#include "tasuki/tensor/cpu/vectorize.hpp"

namespace tasuki {
namespace {

constexpr std::int64_t block = 1024;

std::int64_t label_at(const Tensor& labels, std::int64_t i) {
  return labels.dtype() == DType::int64 ? labels.data<std::int64_t>()[i]
                                        : labels.data<std::int32_t>()[i];
}

void check_labels(const Tensor& labels, std::int64_t classes, std::int64_t ignored) {
  TASUKI_CHECK(labels.dtype() == DType::int32 || labels.dtype() == DType::int64,
               "expected labels of int32 or int64, found {}", name_of(labels.dtype()));
  for (std::int64_t i = 0; i < labels.count(); ++i)
    if (const std::int64_t label = label_at(labels, i);
        label != ignored && (label < 0 || label >= classes))
      fail(ErrorKind::data, "label {} at position {} of the batch is neither in 0 .. {} nor {}",
           label, i, classes - 1, ignored);
}

CountedLoss mean_of(double sum, std::int64_t counted) {
  CountedLoss result{
      Tensor::zeros({}), Tensor::full({}, static_cast<double>(counted), DType::int64), {}};
  if (counted > 0)
    *result.loss.data<float>() = static_cast<float>(sum / static_cast<double>(counted));
  return result;
}

// dy / (the number that counts).
float factor_of(const Tensor& dy, std::int64_t counted) {
  return static_cast<float>(dy.item()) / static_cast<float>(std::max<std::int64_t>(counted, 1));
}

// The sum of part(begin, end) over blocks of [0, count).
template <class Part>
double sum_of_blocks(std::int64_t count, const Part& part) {
  std::vector<double> sums(static_cast<std::size_t>((count + block - 1) / block));
  parallel_for(std::ssize(sums), 8, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      sums[static_cast<std::size_t>(i)] = part(i * block, std::min(count, (i + 1) * block));
  });
  double sum = 0;
  for (const double each : sums) sum += each;
  return sum;
}

// --- softmax cross entropy ---

// -sum_c w_c q_c log p_c = spread * log(sum) - peak * x[label] - sum_c even_c * x_c, where even_c =
// smoothing / classes * w_c, peak = (1 - smoothing) * w[label], and spread is the sum of the two.
struct Targets {
  std::vector<float> even;  // empty: all 0
  double even_sum = 0;
  float sharpness = 1;
  const float* weights = nullptr;

  Targets(const CrossEntropySettings& settings, std::int64_t classes)
      : sharpness(1 - settings.smoothing) {
    if (settings.class_weights) weights = settings.class_weights.data<float>();
    if (settings.smoothing == 0) return;
    even.resize(static_cast<std::size_t>(classes));
    for (std::size_t c = 0; c < even.size(); ++c) {
      even[c] = settings.smoothing / static_cast<float>(classes) * (weights ? weights[c] : 1);
      even_sum += static_cast<double>(even[c]);
    }
  }
  float peak(std::int64_t label) const { return sharpness * (weights ? weights[label] : 1); }
  float spread(std::int64_t label) const { return peak(label) + static_cast<float>(even_sum); }
};

// The sum of even[c] * (x[c] - top).
TASUKI_VECTORIZE float even_part(const float* even, const float* x, float top,
                                 std::int64_t classes) {
  float lanes[16] = {};
  std::int64_t c = 0;
  for (; c + 16 <= classes; c += 16)
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += even[c + lane] * (x[c + lane] - top);
  float sum = 0;
  for (; c < classes; ++c) sum += even[c] * (x[c] - top);
  for (const float lane : lanes) sum += lane;
  return sum;
}

TASUKI_VECTORIZE void subtract_row(float* y, const float* x, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] -= factor * x[i];
}

// y = transposed x (rows x columns), for scores whose classes are not contiguous.
void transpose(const float* x, float* y, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t tile = 16;
  for (std::int64_t i0 = 0; i0 < rows; i0 += tile)
    for (std::int64_t j0 = 0; j0 < columns; j0 += tile)
      for (std::int64_t i = i0; i < std::min(rows, i0 + tile); ++i)
        for (std::int64_t j = j0; j < std::min(columns, j0 + tile); ++j)
          y[j * rows + i] = x[i * columns + j];
}

// Calls row(position, scores, results) for the classes of each position, contiguous in both.
// Results are written back to `to` unless it is null.
template <class Row>
void for_each_position(const ClassScores& scores, const float* from, float* to, const Row& row) {
  const std::int64_t classes = scores.classes, inner = scores.inner;
  if (inner == 1) {
    parallel_for(scores.outer, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(to == nullptr ? static_cast<std::size_t>(classes) : 0);
      for (std::int64_t i = begin; i < end; ++i)
        row(i, from + i * classes, to == nullptr ? scratch.data() : to + i * classes);
    });
    return;
  }
  parallel_for(scores.outer, row_grain(classes * inner), [&](std::int64_t begin, std::int64_t end) {
    const auto count = static_cast<std::size_t>(classes * inner);
    std::vector<float> rows(count), results(count);
    for (std::int64_t o = begin; o < end; ++o) {
      transpose(from + o * classes * inner, rows.data(), classes, inner);
      for (std::int64_t i = 0; i < inner; ++i)
        row(o * inner + i, rows.data() + i * classes, results.data() + i * classes);
      if (to != nullptr) transpose(results.data(), to + o * classes * inner, inner, classes);
    }
  });
}

// --- sigmoid cross entropy: targets are float32 or labels ---

// The sum of max(x, 0) - t x + log(1 + exp(-|x|)) over at most a block of elements, each times its
// weight.
TASUKI_VECTORIZE double sigmoid_losses(const float* x, const float* t, const float* weights,
                                       std::int64_t count) {
  float losses[block];
  for (std::int64_t i = 0; i < count; ++i) {
    const float size = x[i] < 0 ? -x[i] : x[i];
    const float e = fast_exp(size > 87.0f ? -87.0f : -size);
    losses[i] = ((x[i] > 0 ? x[i] : 0.0f) - t[i] * x[i] + fast_log1p(e)) * weights[i];
  }
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(losses[i]);
  return sum;
}

TASUKI_VECTORIZE void sigmoid_gradient(const float* x, const float* t, const float* weights,
                                       float factor, float* dx, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    dx[i] = (fast_sigmoid(x[i]) - t[i]) * weights[i] * factor;
}

// A block of targets and of their weights, 0 for what does not count.
struct TargetBlock {
  const float* t = nullptr;
  float labels[block], weights[block];

  TargetBlock(const Tensor& targets, std::int64_t ignored, std::int64_t begin, std::int64_t end) {
    std::fill_n(weights, end - begin, 1.0f);
    if (targets.dtype() == DType::float32) {
      t = targets.data<float>() + begin;
      return;
    }
    t = labels;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t label = label_at(targets, i);
      if (label == ignored) weights[i - begin] = 0;
      labels[i - begin] = label == ignored ? 0.0f : static_cast<float>(label);
    }
  }
};

// --- huber ---

TASUKI_VECTORIZE double huber_losses(const float* x, const float* t, float delta,
                                     std::int64_t count) {
  float losses[block];
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
    const std::int64_t positions = scores.labels.count(), classes = scores.classes;
    check_labels(scores.labels, classes, settings.ignored_label);
    const Tensor x = scores.x.plain();
    const Targets targets(settings, classes);
    const Tensor log_sums = Tensor::empty({positions}), losses = Tensor::empty({positions});
    float* const logs = log_sums.data<float>();
    float* const loss = losses.data<float>();
    for_each_position(
        scores, x.data<float>(), nullptr, [&](std::int64_t i, const float* row, float* scratch) {
          const float top = largest_in_row(row, classes);
          const float log_sum = std::log(exp_of_row(row, scratch, top, classes));
          logs[i] = top + log_sum;
          const std::int64_t label = label_at(scores.labels, i);
          loss[i] = 0;
          if (label == settings.ignored_label) return;
          loss[i] = targets.spread(label) * log_sum - targets.peak(label) * (row[label] - top);
          if (!targets.even.empty()) loss[i] -= even_part(targets.even.data(), row, top, classes);
        });
    double sum = 0;
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < positions; ++i) {
      sum += static_cast<double>(loss[i]);
      counted += label_at(scores.labels, i) != settings.ignored_label;
    }
    CountedLoss result = mean_of(sum, counted);
    result.saved = log_sums;
    return result;
  }

  Tensor softmax_cross_entropy_backward(const CountedLoss& forward, const ClassScores& scores,
                                        const CrossEntropySettings& settings,
                                        const Tensor& dy) override {
    const Tensor x = scores.x.plain();
    Tensor dx = Tensor::empty(x.shape());
    const std::int64_t classes = scores.classes;
    const float factor = factor_of(dy, *forward.counted.data<std::int64_t>());
    const float* const logs = forward.saved.data<float>();
    const Targets targets(settings, classes);
    for_each_position(scores, x.data<float>(), dx.data<float>(),
                      [&](std::int64_t i, const float* row, float* out) {
                        const std::int64_t label = label_at(scores.labels, i);
                        if (label == settings.ignored_label) {
                          std::fill_n(out, classes, 0.0f);
                          return;
                        }
                        exp_of_row(row, out, logs[i], classes);
                        scale_row(out, out, factor * targets.spread(label), classes);
                        if (!targets.even.empty())
                          subtract_row(out, targets.even.data(), factor, classes);
                        out[label] -= factor * targets.peak(label);
                      });
    return dx;
  }

  CountedLoss sigmoid_cross_entropy(const Tensor& scores, const Tensor& t,
                                    std::int64_t ignored_label) override {
    const Tensor x = scores.plain();
    std::int64_t counted = t.count();
    if (t.dtype() != DType::float32) {
      check_labels(t, 2, ignored_label);
      for (std::int64_t i = 0; i < t.count(); ++i) counted -= label_at(t, i) == ignored_label;
    }
    const double sum = sum_of_blocks(x.count(), [&](std::int64_t begin, std::int64_t end) {
      const TargetBlock targets(t, ignored_label, begin, end);
      return sigmoid_losses(x.data<float>() + begin, targets.t, targets.weights, end - begin);
    });
    return mean_of(sum, counted);
  }

  Tensor sigmoid_cross_entropy_backward(const CountedLoss& forward, const Tensor& scores,
                                        const Tensor& t, std::int64_t ignored_label,
                                        const Tensor& dy) override {
    const Tensor x = scores.plain();
    Tensor dx = Tensor::empty(x.shape());
    const float factor = factor_of(dy, *forward.counted.data<std::int64_t>());
    for_each_block(x.count(), [&](std::int64_t begin, std::int64_t end) {
      const TargetBlock targets(t, ignored_label, begin, end);
      sigmoid_gradient(x.data<float>() + begin, targets.t, targets.weights, factor,
                       dx.data<float>() + begin, end - begin);
    });
    return dx;
  }

  CountedLoss huber(const Tensor& predicted, const Tensor& t, float delta) override {
    const Tensor x = predicted.plain();
    const double sum = sum_of_blocks(x.count(), [&](std::int64_t begin, std::int64_t end) {
      return huber_losses(x.data<float>() + begin, t.data<float>() + begin, delta, end - begin);
    });
    return {mean_of(sum, x.count()).loss, {}, {}};
  }

  Tensor huber_backward(const Tensor& predicted, const Tensor& t, float delta,
                        const Tensor& dy) override {
    const Tensor x = predicted.plain();
    Tensor dx = Tensor::empty(x.shape());
    const float factor = factor_of(dy, x.count());
    for_each_block(x.count(), [&](std::int64_t begin, std::int64_t end) {
      huber_gradient(x.data<float>() + begin, t.data<float>() + begin, delta, factor,
                     dx.data<float>() + begin, end - begin);
    });
    return dx;
  }

 private:
  template <class Work>
  static void for_each_block(std::int64_t count, const Work& work) {
    parallel_for((count + block - 1) / block, 8, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t i = first; i < last; ++i) work(i * block, std::min(count, (i + 1) * block));
    });
  }
};

}  // namespace

LossOperations& CpuBackend::losses() {
  static CpuLossOperations operations;
  return operations;
}

}  // namespace tasuki
