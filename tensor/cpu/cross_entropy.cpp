// Softmax cross entropy and accuracy: CpuBackend's, for examples x classes, whose softmax it keeps;
// and the general one, with ignored labels, smoothing, weights of classes and further axes.
#include <algorithm>
#include <cmath>

#include "tensor/bad_index.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/fast_math.hpp"
#include "tensor/cpu/float_blocks.hpp"
#include "tensor/cpu/loss_means.hpp"
#include "tensor/cpu/softmax_kernels.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {

// --- examples x classes ---

namespace {

// Labels of rows, whatever their type; checked against the number of classes.
class Labels {
 public:
  Labels(const Tensor& t, const Shape& x) : classes_(x.rank() == 2 ? x[1] : 0) {
    TASUKI_CHECK(x.rank() == 2 && t.shape() == Shape{x[0]},
                 "scores of {} (examples x classes) and labels of {} do not fit", x.text(),
                 t.shape().text());
    if (t.dtype() == DType::int32)
      narrow_ = t.data<std::int32_t>();
    else if (t.dtype() == DType::int64)
      wide_ = t.data<std::int64_t>();
    else
      fail(ErrorKind::internal, "expected labels of int32 or int64, found {}", name_of(t.dtype()));
    for (std::int64_t i = 0; i < x[0]; ++i)
      if ((*this)[i] < -1 || (*this)[i] >= classes_) throw bad_label((*this)[i], i, classes_, -1);
  }
  std::int64_t operator[](std::int64_t i) const { return narrow_ ? narrow_[i] : wide_[i]; }

 private:
  std::int64_t classes_;
  const std::int32_t* narrow_ = nullptr;
  const std::int64_t* wide_ = nullptr;
};

}  // namespace

CrossEntropyResult CpuBackend::softmax_cross_entropy(const Tensor& scores, const Tensor& t,
                                                     AccuracyResult* accuracy) {
  if (accuracy != nullptr) *accuracy = count_correct(scores, t);
  const Labels labels(t, scores.shape());
  const Tensor x = scores.plain();
  const FloatElements from(x);
  const std::int64_t items = x.shape()[0], classes = x.shape()[1];
  CrossEntropyResult result{Tensor::zeros({}), Tensor::empty(x.shape()),
                            Tensor::zeros({}, DType::int64), scores.dtype()};
  const Tensor losses = Tensor::empty({items});
  float* const probabilities = result.probabilities.data<float>();
  float* const loss = losses.data<float>();
  parallel_for(items, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    FloatBuffers<1> buffer(from, classes);
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const row = from.read(i * classes, classes, buffer[0]);
      float* const out = probabilities + i * classes;
      loss[i] = 0;
      if (classes == 0) continue;
      const float top = largest_in_row(row, classes);
      const float sum = exp_of_row(row, out, top, classes);
      scale_row(out, out, 1 / sum, classes);
      if (labels[i] >= 0) loss[i] = std::log(sum) - (row[labels[i]] - top);
    }
  });
  double total = 0;
  std::int64_t& counted = *result.counted.data<std::int64_t>();
  for (std::int64_t i = 0; i < items; ++i) {
    if (labels[i] < 0) continue;
    total += static_cast<double>(loss[i]);
    ++counted;
  }
  if (counted > 0)
    *result.loss.data<float>() = static_cast<float>(total / static_cast<double>(counted));
  return result;
}

Tensor CpuBackend::softmax_cross_entropy_backward(const CrossEntropyResult& forward,
                                                  const Tensor& t, const Tensor& dy) {
  const Labels labels(t, forward.probabilities.shape());
  Tensor dx = Tensor::empty(forward.probabilities.shape(), forward.dtype);
  const std::int64_t items = dx.shape()[0], classes = dx.shape()[1];
  const std::int64_t counted = *forward.counted.data<std::int64_t>();
  const float factor =
      static_cast<float>(dy.item()) / static_cast<float>(std::max<std::int64_t>(counted, 1));
  const float* const from = forward.probabilities.data<float>();
  const FloatElements to(dx);
  parallel_for(items, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    FloatBuffers<1> buffer(to, classes);
    for (std::int64_t i = begin; i < end; ++i) {
      float* const row = to.place(i * classes, buffer[0]);
      const std::int64_t label = labels[i];
      if (label < 0) {  // also where scores are infinite, whose softmax is not a number
        std::fill_n(row, classes, 0.0f);
      } else {
        scale_row(from + i * classes, row, factor, classes);
        row[label] -= factor;
      }
      to.write(i * classes, classes, row);
    }
  });
  return dx;
}

namespace {

// As NumPy's argmax, but what is no number is never the largest; -1 if there is no number.
std::int64_t first_of_largest(const float* row, std::int64_t classes) {
  std::int64_t best = -1;
  for (std::int64_t c = 0; c < classes; ++c)
    if (best < 0 ? !std::isnan(row[c]) : row[c] > row[best]) best = c;
  return best;
}

}  // namespace

AccuracyResult CpuBackend::count_correct(const Tensor& scores, const Tensor& t) {
  const Labels labels(t, scores.shape());
  const Tensor x = scores.plain();
  const FloatElements from(x);
  const std::int64_t classes = x.shape()[1];
  FloatBuffers<1> buffer(from, classes);
  AccuracyResult result{Tensor::zeros({}, DType::int64), Tensor::zeros({}, DType::int64)};
  std::int64_t& correct = *result.correct.data<std::int64_t>();
  std::int64_t& counted = *result.counted.data<std::int64_t>();
  for (std::int64_t i = 0; i < x.shape()[0]; ++i) {
    if (labels[i] < 0) continue;
    ++counted;
    const float* const row = from.read(i * classes, classes, buffer[0]);
    if (labels[i] == first_of_largest(row, classes)) ++correct;
  }
  return result;
}

// --- the general one: scores of a position lie in a row, or, with further axes behind that of the
// classes (pixels, steps), in a column ---

namespace {

// -sum_c w_c q_c log p_c = spread * log(sum) - peak * x[label] - sum_c even_c * x_c, where even_c =
// smoothing / classes * w_c, peak = (1 - smoothing) * w[label], and spread is the sum of the two.
struct Targets {
  std::vector<float> even_parts;  // empty: all 0
  double even_sum = 0;
  float sharpness = 1;
  const float* weights = nullptr;

  Targets(const CrossEntropySettings& settings, std::int64_t classes)
      : sharpness(1 - settings.smoothing) {
    if (settings.class_weights) weights = settings.class_weights.data<float>();
    if (settings.smoothing == 0) return;
    even_parts.resize(static_cast<std::size_t>(classes));
    for (std::size_t c = 0; c < even_parts.size(); ++c) {
      even_parts[c] = settings.smoothing / static_cast<float>(classes) * (weights ? weights[c] : 1);
      even_sum += static_cast<double>(even_parts[c]);
    }
  }
  // Null: all 0.
  const float* even() const { return even_parts.empty() ? nullptr : even_parts.data(); }
  float peak(std::int64_t label) const { return sharpness * (weights ? weights[label] : 1); }
  float spread(std::int64_t label) const { return peak(label) + static_cast<float>(even_sum); }
  // Scores are relative to the largest one; `even_score` is the sum of even_c times them.
  float loss(std::int64_t label, float log_sum, float label_score, float even_score) const {
    return spread(label) * log_sum - peak(label) * label_score - even_score;
  }
};

// --- rows ---

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

// --- columns: up to `most_columns` neighbouring positions, whose classes are `stride` apart ---

constexpr std::int64_t most_columns = 64;

// The largest score of each, and the sum of exponentials of the others' distances from it.
// `even_scores` stays as it is without `even`.
TASUKI_VECTORIZE void sums_of_columns(const float* x, std::int64_t classes, std::int64_t stride,
                                      std::int64_t columns, const float* even, float* tops,
                                      float* sums, float* even_scores) {
  for (std::int64_t j = 0; j < columns; ++j) tops[j] = x[j];
  for (std::int64_t c = 1; c < classes; ++c)
    for (std::int64_t j = 0; j < columns; ++j)
      tops[j] = tops[j] > x[c * stride + j] ? tops[j] : x[c * stride + j];
  for (std::int64_t j = 0; j < columns; ++j) sums[j] = 0;
  for (std::int64_t c = 0; c < classes; ++c)
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += limited_exp(x[c * stride + j] - tops[j]);
  if (even == nullptr) return;
  for (std::int64_t c = 0; c < classes; ++c)
    for (std::int64_t j = 0; j < columns; ++j)
      even_scores[j] += even[c] * (x[c * stride + j] - tops[j]);
}

TASUKI_VECTORIZE void logarithms(const float* x, float* y, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = fast_log(x[j]);
}

// dx = factors * exp(x - tops) - even_factors * even
TASUKI_VECTORIZE void gradient_of_columns(const float* x, float* dx, std::int64_t classes,
                                          std::int64_t stride, std::int64_t columns,
                                          const float* tops, const float* factors,
                                          const float* even, const float* even_factors) {
  for (std::int64_t c = 0; c < classes; ++c) {
    const float part = even == nullptr ? 0.0f : even[c];
    for (std::int64_t j = 0; j < columns; ++j) {
      const float e = limited_exp(x[c * stride + j] - tops[j]);
      dx[c * stride + j] = factors[j] * e - even_factors[j] * part;
    }
  }
}

// Neighbouring positions: the first one, where its scores begin, and how many.
struct Columns {
  std::int64_t first, begin, count;
};

// Calls work(Columns, buffers) for all positions; x: the scores. A buffer has room for theirs.
template <int buffers_needed, class Work>
void for_each_columns(const ClassScores& scores, const FloatElements& x, const Work& work) {
  const std::int64_t inner = scores.inner, parts = (inner + most_columns - 1) / most_columns;
  parallel_for(scores.outer * parts, row_grain(scores.classes * std::min(inner, most_columns)),
               [&](std::int64_t begin, std::int64_t end) {
                 FloatBuffers<buffers_needed> buffers(
                     x, scores.classes * std::min(inner, most_columns));
                 for (std::int64_t at = begin; at < end; ++at) {
                   const std::int64_t item = at / parts, first = at % parts * most_columns;
                   work(Columns{item * inner + first, item * scores.classes * inner + first,
                                std::min(most_columns, inner - first)},
                        buffers);
                 }
               });
}

// --- both ---

// Of each position: the largest score, and the sum of exponentials of the distances from it. Their
// logarithm added to a large score would lose digits.
struct Sums {
  float* tops;
  float* sums;

  // CountedLoss::saved: a row of each.
  explicit Sums(const Tensor& saved) : tops(saved.data<float>()), sums(tops + saved.shape()[1]) {}
};

template <class Label>
void losses_of(const ClassScores& scores, const FloatElements& x, const Label* labels,
               std::int64_t ignored, const Targets& targets, const Sums& found, float* losses) {
  const std::int64_t classes = scores.classes;
  if (scores.inner == 1) {
    parallel_for(scores.outer, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(static_cast<std::size_t>(classes));
      FloatBuffers<1> buffer(x, classes);
      for (std::int64_t i = begin; i < end; ++i) {
        const float* const row = x.read(i * classes, classes, buffer[0]);
        const float top = largest_in_row(row, classes);
        found.tops[i] = top;
        found.sums[i] = exp_of_row(row, scratch.data(), top, classes);
        losses[i] = 0;
        if (labels[i] == ignored) continue;
        const float even = targets.even() ? even_part(targets.even(), row, top, classes) : 0.0f;
        losses[i] = targets.loss(labels[i], std::log(found.sums[i]), row[labels[i]] - top, even);
      }
    });
    return;
  }
  for_each_columns<1>(scores, x, [&](const Columns& at, auto& buffers) {
    const std::int64_t first = at.first, columns = at.count;
    const auto in = x.read_rows(at.begin, classes, scores.inner, columns, buffers[0]);
    float even_scores[most_columns] = {}, log_sums[most_columns];
    sums_of_columns(in.values, classes, in.step, columns, targets.even(), found.tops + first,
                    found.sums + first, even_scores);
    logarithms(found.sums + first, log_sums, columns);
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t i = first + j, label = labels[i];
      losses[i] = 0;
      if (label == ignored) continue;
      const float score = in.values[label * in.step + j] - found.tops[i];
      losses[i] = targets.loss(label, log_sums[j], score, even_scores[j]);
    }
  });
}

template <class Label>
void gradient_of(const ClassScores& scores, const FloatElements& x, const Label* labels,
                 std::int64_t ignored, const Targets& targets, const Sums& found, float factor,
                 const FloatElements& dx) {
  const std::int64_t classes = scores.classes;
  if (scores.inner == 1) {
    parallel_for(scores.outer, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
      FloatBuffers<2> buffers(x, classes);
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t row = i * classes, label = labels[i];
        float* const to = dx.place(row, buffers[1]);
        if (label == ignored) {
          std::fill_n(to, classes, 0.0f);
        } else {
          exp_of_row(x.read(row, classes, buffers[0]), to, found.tops[i], classes);
          scale_row(to, to, factor * targets.spread(label) / found.sums[i], classes);
          if (targets.even()) subtract_row(to, targets.even(), factor, classes);
          to[label] -= factor * targets.peak(label);
        }
        dx.write(row, classes, to);
      }
    });
    return;
  }
  for_each_columns<2>(scores, x, [&](const Columns& at, auto& buffers) {
    const std::int64_t first = at.first, columns = at.count;
    const auto in = x.read_rows(at.begin, classes, scores.inner, columns, buffers[0]);
    const auto out = dx.place_rows(at.begin, scores.inner, columns, buffers[1]);
    float factors[most_columns], even_factors[most_columns];
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t i = first + j, label = labels[i];
      even_factors[j] = label == ignored ? 0.0f : factor;
      factors[j] = label == ignored ? 0.0f : factor * targets.spread(label) / found.sums[i];
    }
    gradient_of_columns(in.values, out.values, classes, in.step, columns, found.tops + first,
                        factors, targets.even(), even_factors);
    for (std::int64_t j = 0; j < columns; ++j) {
      const std::int64_t label = labels[first + j];
      if (label != ignored) {
        out.values[label * out.step + j] -= factor * targets.peak(label);
        continue;
      }
      // Also where scores are infinite, of which 0 times the softmax is not a number.
      for (std::int64_t c = 0; c < classes; ++c) out.values[c * out.step + j] = 0;
    }
    dx.write_rows(at.begin, classes, scores.inner, columns, out.values);
  });
}

}  // namespace

CountedLoss cpu_cross_entropy(const ClassScores& scores, const CrossEntropySettings& settings) {
  const std::int64_t positions = scores.labels.count();
  const std::int64_t counted = count_labels(scores.labels, scores.classes, settings.ignored_label);
  const Tensor x = scores.x.plain();
  const Tensor saved = Tensor::empty({2, positions}), losses = Tensor::empty({positions});
  float* const loss = losses.data<float>();
  with_labels(scores.labels, [&](const auto* labels) {
    losses_of(scores, FloatElements(x), labels, settings.ignored_label,
              Targets(settings, scores.classes), Sums(saved), loss);
  });
  const double sum = sum_of_blocks(positions, [&](std::int64_t begin, std::int64_t end) {
    double part = 0;
    for (std::int64_t i = begin; i < end; ++i) part += static_cast<double>(loss[i]);
    return part;
  });
  CountedLoss result = mean_of(sum, counted);
  result.saved = saved;
  return result;
}

Tensor cpu_cross_entropy_backward(const CountedLoss& forward, const ClassScores& scores,
                                  const CrossEntropySettings& settings, const Tensor& dy) {
  const Tensor x = scores.x.plain();
  Tensor dx = Tensor::empty(x.shape(), x.dtype());
  const float factor = factor_of(dy, *forward.counted.data<std::int64_t>());
  with_labels(scores.labels, [&](const auto* labels) {
    gradient_of(scores, FloatElements(x), labels, settings.ignored_label,
                Targets(settings, scores.classes), Sums(forward.saved), factor, FloatElements(dx));
  });
  return dx;
}

}  // namespace tasuki
