// Sums and maxima of a row in sixteen lanes, which a vector can hold: one running value would be a
// chain of dependent operations, and GCC keeps an array of running values in memory. Inlined into
// loops under TASUKI_VECTORIZE.
#pragma once

#include <cstdint>

namespace tasuki {

inline constexpr int lane_count = 16;
using Lanes = float __attribute__((vector_size(lane_count * sizeof(float))));

// The floats from this address on. A reference, because how vectors are returned depends on the
// processor.
[[gnu::always_inline]] inline const auto& lanes_at(const float* address) {
  using InMemory = float
      __attribute__((vector_size(lane_count * sizeof(float)), aligned(sizeof(float)), may_alias));
  return *reinterpret_cast<const InMemory*>(address);
}

// start + lanes[0] + lanes[1] + ...
[[gnu::always_inline]] inline float total(const Lanes& lanes, float start = 0) {
  for (int lane = 0; lane < lane_count; ++lane) start += lanes[lane];
  return start;
}

[[gnu::always_inline]] inline float sum_in_lanes(const float* x, std::int64_t count) {
  Lanes lanes{};
  std::int64_t j = 0;
  for (; j + lane_count <= count; j += lane_count) lanes += lanes_at(x + j);
  float sum = 0;
  for (; j < count; ++j) sum += x[j];
  return total(lanes, sum);
}

// The sum of a[j] * b[j].
[[gnu::always_inline]] inline float product_in_lanes(const float* a, const float* b,
                                                     std::int64_t count) {
  Lanes lanes{};
  std::int64_t j = 0;
  for (; j + lane_count <= count; j += lane_count) lanes += lanes_at(a + j) * lanes_at(b + j);
  float sum = 0;
  for (; j < count; ++j) sum += a[j] * b[j];
  return total(lanes, sum);
}

// The largest of x and `least`.
[[gnu::always_inline]] inline float largest_in_lanes(const float* x, std::int64_t count,
                                                     float least) {
  Lanes lanes = Lanes{} + least;
  std::int64_t j = 0;
  for (; j + lane_count <= count; j += lane_count) {
    const Lanes next = lanes_at(x + j);
    lanes = lanes > next ? lanes : next;
  }
  float top = lanes[0];
  for (; j < count; ++j) top = top > x[j] ? top : x[j];
  for (int lane = 0; lane < lane_count; ++lane) top = top > lanes[lane] ? top : lanes[lane];
  return top;
}

}  // namespace tasuki
