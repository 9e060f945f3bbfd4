// Sums and multiples of arrays of `count` activations (float32, float16 or bfloat16, the same for
// all arrays of a call), computed in float32. Results may be written over inputs.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"

namespace tasuki::kernels {

// c = a + b.
void add(const Launch& launch, DType type, const void* a, const void* b, void* c,
         std::int64_t count);
// y += factor * x.
void accumulate(const Launch& launch, DType type, void* y, const void* x, float factor,
                std::int64_t count);
// x *= factor.
void scale(const Launch& launch, DType type, void* x, float factor, std::int64_t count);
// average[i] = decay * average[i] + weight * value[i], for several arrays of `count` float32
// values.
struct MovedAverages {
  static constexpr int most = 4;
  struct Each {
    float* average;
    const float* value;
    float decay, weight;
  };
  Each each[most];
  int number = 0;
};
void move_averages(const Launch& launch, const MovedAverages& averages, std::int64_t count);
// *sum += factor * *value, for a value of any type.
void accumulate_scalar(const Launch& launch, double* sum, DType type, const void* value,
                       double factor);

}  // namespace tasuki::kernels
