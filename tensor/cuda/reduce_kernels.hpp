// Kernels that sum over axes. The order of additions is a function of the shape and the device, so
// that equal runs give equal bits.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// How a sum over many rows is divided: blocks sum parts, and a second step adds up the results.
struct SumPlan {
  std::int64_t parts = 1;
  // Floats of scratch memory that the kernels need.
  std::int64_t scratch(std::int64_t columns) const { return parts > 1 ? parts * columns : 0; }
};
SumPlan plan_column_sums(int multiprocessors, std::int64_t rows, std::int64_t columns);
SumPlan plan_channel_sums(int multiprocessors, std::int64_t values, std::int64_t channels);

// sums[c] (+)= sum over r of x[r * columns + c].
void column_sums(const Launch& launch, const SumPlan& plan, DType type, const void* x,
                 std::int64_t rows, std::int64_t columns, float* sums, bool accumulate,
                 float* scratch);
// sums[c] (+)= sum over i, p of x[(i * channels + c) * pixels + p].
void channel_sums(const Launch& launch, const SumPlan& plan, DType type, const void* x,
                  std::int64_t items, std::int64_t channels, std::int64_t pixels, float* sums,
                  bool accumulate, float* scratch);

// x[r * columns + c] += bias[c], then max(., 0) with `relu`.
void add_bias(const Launch& launch, DType type, void* x, const float* bias, std::int64_t rows,
              std::int64_t columns, bool relu);

// *result = sum of squares of `count` floats. `scratch`: squared_norm_parts() doubles.
std::int64_t squared_norm_parts(int multiprocessors, std::int64_t count);
void squared_norm(const Launch& launch, const float* x, std::int64_t count, double* result,
                  double* scratch);

}  // namespace tasuki::kernels
