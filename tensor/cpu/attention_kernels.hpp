// Loops of attention between its products of matrices, over rows of a block of scores.
#pragma once

#include <cstdint>

#include "tensor/vectorize.hpp"

namespace tasuki {
TASUKI_VECTORIZED_BEGIN

// What is known of all scores of a query: the largest one, and the sum of e^(score - largest).
struct QueryStatistics {
  float largest, sum;
};

// One row of scores: `count` keys are seen, the others of the block, up to `columns`, get 0.
// In: scores, and the row's statistics so far. Out: e^(score - largest), and the statistics with
// these scores. Returns the factor by which earlier results of the row shrink.
float attention_row(float* scores, std::int64_t count, std::int64_t columns,
                    QueryStatistics* query);
// The softmax itself.
void attention_weights(float* scores, std::int64_t count, std::int64_t columns,
                       QueryStatistics query);
// ds = weights * (dp - delta) * scale, written to dp.
void attention_slopes(const float* weights, float* dp, std::int64_t columns, float delta,
                      float scale);
void scale_floats(float* x, std::int64_t count, float factor);
float dot_product(const float* a, const float* b, std::int64_t count);

TASUKI_VECTORIZED_END
}  // namespace tasuki
