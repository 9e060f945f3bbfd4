#include "tensor/cpu/attention_kernels.hpp"

#include "tensor/cpu/fast_math.hpp"
#include "tensor/cpu/lanes.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {

TASUKI_VECTORIZE float attention_row(float* scores, std::int64_t count, std::int64_t columns,
                                     QueryStatistics* query) {
  const float top = largest_in_lanes(scores, count, query->largest);
  std::int64_t j = 0;
  for (; j < count; ++j) {
    const float x = scores[j] - top;
    scores[j] = fast_exp(x < -87.0f ? -87.0f : x);
  }
  for (; j < columns; ++j) scores[j] = 0;
  const float x = query->largest - top;
  const float factor = fast_exp(x < -87.0f ? -87.0f : x);
  *query = {top, query->sum * factor + sum_in_lanes(scores, count)};
  return factor;
}

TASUKI_VECTORIZE void attention_weights(float* scores, std::int64_t count, std::int64_t columns,
                                        QueryStatistics query) {
  const float factor = 1 / query.sum;
  std::int64_t j = 0;
  for (; j < count; ++j) {
    const float x = scores[j] - query.largest;
    const float limited = x > 0.0f ? 0.0f : x;  // rounding
    scores[j] = fast_exp(limited < -87.0f ? -87.0f : limited) * factor;
  }
  for (; j < columns; ++j) scores[j] = 0;
}

TASUKI_VECTORIZE void attention_slopes(const float* weights, float* dp, std::int64_t columns,
                                       float delta, float scale) {
  for (std::int64_t j = 0; j < columns; ++j) dp[j] = weights[j] * (dp[j] - delta) * scale;
}

TASUKI_VECTORIZE void scale_floats(float* x, std::int64_t count, float factor) {
  for (std::int64_t j = 0; j < count; ++j) x[j] *= factor;
}

TASUKI_VECTORIZE float dot_product(const float* a, const float* b, std::int64_t count) {
  return product_in_lanes(a, b, count);
}

}  // namespace tasuki
