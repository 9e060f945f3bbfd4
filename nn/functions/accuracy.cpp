#include "nn/functions/accuracy.hpp"

namespace tasuki {

AccuracyResult count_correct(const Variable& x, const Tensor& t) {
  return backend(x.value().device()).count_correct(x.value(), t);
}

double accuracy(const Variable& x, const Tensor& t) {
  const auto [correct, counted] = count_correct(x, t);
  return correct.item() / counted.item();  // 0 / 0 is NaN
}

}  // namespace tasuki
