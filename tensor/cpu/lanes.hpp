// Sums and maxima of a row in sixteen lanes, which a vector can hold: one running value would be a
// chain of dependent operations. Inlined into loops under TASUKI_VECTORIZE.
#pragma once

#include <cstdint>

namespace tasuki {

[[gnu::always_inline]] inline float sum_in_lanes(const float* x, std::int64_t count) {
  float lanes[16] = {};
  std::int64_t j = 0;
  for (; j + 16 <= count; j += 16)
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += x[j + lane];
  float sum = 0;
  for (; j < count; ++j) sum += x[j];
  for (const float lane : lanes) sum += lane;
  return sum;
}

// The sum of a[j] * b[j].
[[gnu::always_inline]] inline float product_in_lanes(const float* a, const float* b,
                                                     std::int64_t count) {
  float lanes[16] = {};
  std::int64_t j = 0;
  for (; j + 16 <= count; j += 16)
    for (int lane = 0; lane < 16; ++lane) lanes[lane] += a[j + lane] * b[j + lane];
  float sum = 0;
  for (; j < count; ++j) sum += a[j] * b[j];
  for (const float lane : lanes) sum += lane;
  return sum;
}

// The largest of x and `least`.
[[gnu::always_inline]] inline float largest_in_lanes(const float* x, std::int64_t count,
                                                     float least) {
  float lanes[16];
  for (float& lane : lanes) lane = least;
  std::int64_t j = 0;
  for (; j + 16 <= count; j += 16)
    for (int lane = 0; lane < 16; ++lane)
      lanes[lane] = lanes[lane] > x[j + lane] ? lanes[lane] : x[j + lane];
  float top = lanes[0];
  for (; j < count; ++j) top = top > x[j] ? top : x[j];
  for (const float lane : lanes) top = top > lane ? top : lane;
  return top;
}

}  // namespace tasuki
