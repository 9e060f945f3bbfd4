// Softmax cross entropy and accuracy.
#include <cmath>

#include "tensor/bad_index.hpp"
#include "tensor/cpu/cpu_backend.hpp"
#include "tensor/cpu/fast_math.hpp"
#include "tensor/cpu/lanes.hpp"
#include "tensor/cpu/softmax_kernels.hpp"
#include "tensor/parallel.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {
TASUKI_VECTORIZE float largest_in_row(const float* x, std::int64_t count) {
  return largest_in_lanes(x, count, x[0]);
}

TASUKI_VECTORIZE float exp_of_row(const float* x, float* y, float shift, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = limited_exp(x[j] - shift);
  return sum_in_lanes(y, count);
}

TASUKI_VECTORIZE void scale_row(const float* x, float* y, float factor, std::int64_t count) {
  for (std::int64_t j = 0; j < count; ++j) y[j] = x[j] * factor;
}

std::int64_t row_grain(std::int64_t columns) {
  // Number of scores, an exponential each, for which waking a thread pays.
  constexpr std::int64_t worth_a_thread = 4096;
  return worth_a_thread / (columns + 1) + 1;
}

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

CrossEntropyResult CpuBackend::softmax_cross_entropy(const Tensor& scores, const Tensor& t) {
  const Labels labels(t, scores.shape());
  const Tensor x = scores.plain();
  const std::int64_t items = x.shape()[0], classes = x.shape()[1];
  CrossEntropyResult result{Tensor::zeros({}), Tensor::empty(x.shape()),
                            Tensor::zeros({}, DType::int64), x.dtype()};
  const Tensor losses = Tensor::empty({items});
  const float* const from = x.data<float>();
  float* const probabilities = result.probabilities.data<float>();
  float* const loss = losses.data<float>();
  parallel_for(items, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* const row = from + i * classes;
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
  Tensor dx = Tensor::empty(forward.probabilities.shape());
  const std::int64_t items = dx.shape()[0], classes = dx.shape()[1];
  const std::int64_t counted = *forward.counted.data<std::int64_t>();
  const float factor =
      static_cast<float>(dy.item()) / static_cast<float>(std::max<std::int64_t>(counted, 1));
  const float* const from = forward.probabilities.data<float>();
  float* const to = dx.data<float>();
  parallel_for(items, row_grain(classes), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      float* const row = to + i * classes;
      const std::int64_t label = labels[i];
      if (label < 0) {  // also where scores are infinite, whose softmax is no number
        std::fill_n(row, classes, 0.0f);
        continue;
      }
      scale_row(from + i * classes, row, factor, classes);
      row[label] -= factor;
    }
  });
  return dx;
}

AccuracyResult CpuBackend::count_correct(const Tensor& scores, const Tensor& t) {
  const Labels labels(t, scores.shape());
  const Tensor x = scores.plain();
  const std::int64_t classes = x.shape()[1];
  AccuracyResult result{Tensor::zeros({}, DType::int64), Tensor::zeros({}, DType::int64)};
  std::int64_t& correct = *result.correct.data<std::int64_t>();
  std::int64_t& counted = *result.counted.data<std::int64_t>();
  for (std::int64_t i = 0; i < x.shape()[0]; ++i) {
    if (labels[i] < 0) continue;
    ++counted;
    const float* const row = x.data<float>() + i * classes;
    // The first of equal scores counts, as in NumPy's argmax.
    if (std::max_element(row, row + classes) - row == labels[i]) ++correct;
  }
  return result;
}

}  // namespace tasuki
