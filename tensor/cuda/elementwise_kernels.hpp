// Element-wise kernels over arrays of `count` activations (float32, float16 or bfloat16, the same
// for all arrays of a call), computed in float32. Results may be written over inputs.
#pragma once

#include <cstdint>

#include "tensor/cuda/launch.hpp"
#include "tensor/dtype.hpp"
#include "tensor/element_functions.hpp"
#include "tensor/operation_options.hpp"
#include "tensor/strided_loop.hpp"

namespace tasuki::kernels {

void apply(const Launch& launch, Unary op, DType type, const void* x, void* y, float slope,
           std::int64_t count);
// dx from the function's output y.
void apply_backward(const Launch& launch, Unary op, DType type, const void* y, const void* dy,
                    void* dx, float slope, std::int64_t count);
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

// The functions of ElementwiseOperations (tensor/element_functions.hpp); `p` and `q` as there.
void map(const Launch& launch, Map f, DType type, const void* x, void* y, float p, float q,
         std::int64_t count);
// dx from what gradient_needs_result() says is kept.
void map_gradient(const Launch& launch, Map f, DType type, const void* kept, const void* dy,
                  void* dx, float p, float q, std::int64_t count);
// `count` elements of y, from arrays that `loop` broadcasts to its shape. Without a loop, all
// arrays have that many elements, in the same order.
void binary(const Launch& launch, Binary f, DType type, const void* a, const void* b, void* y,
            const StridedLoop<2>* loop, std::int64_t count);
void ternary(const Launch& launch, Ternary f, DType type, const void* a, const void* b,
             const void* c, void* y, const StridedLoop<3>* loop, std::int64_t count);

}  // namespace tasuki::kernels
