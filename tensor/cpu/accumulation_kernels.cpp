#include "tensor/cpu/accumulation_kernels.hpp"

#include "tensor/cpu/lanes.hpp"
#include "tensor/vectorize.hpp"

namespace tasuki {

TASUKI_VECTORIZE void add_kernel(const float* a, const float* b, float* c, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) c[i] = a[i] + b[i];
}

TASUKI_VECTORIZE void accumulate_kernel(float* y, const float* x, float scale, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += scale * x[i];
}

TASUKI_VECTORIZE void scale_kernel(float* x, float factor, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

TASUKI_VECTORIZE void move_average_kernel(float* average, const float* value, float decay,
                                          float weight, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) average[i] = decay * average[i] + weight * value[i];
}

TASUKI_VECTORIZE void column_sum_kernel(const float* x, float* __restrict sums, std::int64_t rows,
                                        std::int64_t columns) {
  // Four rows at a time, so that the sums are loaded and stored a quarter as often.
  std::int64_t i = 0;
  for (; i + 4 <= rows; i += 4) {
    const float* const r0 = x + i * columns;
    const float* const r1 = r0 + columns;
    const float* const r2 = r1 + columns;
    const float* const r3 = r2 + columns;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += (r0[j] + r1[j]) + (r2[j] + r3[j]);
  }
  for (; i < rows; ++i) {
    const float* const row = x + i * columns;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += row[j];
  }
}

TASUKI_VECTORIZE void row_sum_kernel(const float* x, float* sums, std::int64_t rows,
                                     std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) sums[i] += sum_in_lanes(x + i * columns, columns);
}

TASUKI_VECTORIZE void repeat_row_kernel(const float* values, float* __restrict rows,
                                        std::int64_t count, std::int64_t columns) {
  for (std::int64_t i = 0; i < count; ++i)
    for (std::int64_t j = 0; j < columns; ++j) rows[i * columns + j] = values[j];
}

}  // namespace tasuki
