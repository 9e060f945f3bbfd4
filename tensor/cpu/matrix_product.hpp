// Matrix products by oneDNN: of float32 by its sgemm, of bfloat16 by its inner product.
#pragma once

#include <cstdint>

#include "tensor/tensor.hpp"

namespace tasuki {

// Row-major C (m x n) = op(A) op(B) + beta C; sizes are positive.
struct Product {
  char transpose_a, transpose_b;  // 'N' or 'T'
  std::int64_t m, n, k;
  const float *a, *b;
  float* c;
  float beta;
};

void multiply(const Product& p);

// `batch` products, whose matrices are step_a, step_b and step_c elements apart. With step_c = 0
// they are added up, one after the other. Otherwise threads share the products if there are enough.
void multiply_batch(const Product& first, std::int64_t batch, std::int64_t step_a,
                    std::int64_t step_b, std::int64_t step_c);

// Products of fully connected layers with inputs rounded to bfloat16 and float32 sums. Arguments
// are as in Backend; results are plain and have the right shape; no tensor is empty.
void linear_bfloat16(const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y);
void linear_bfloat16_backward_data(const Tensor& dy, const Tensor& w, const Tensor& dx);
void linear_bfloat16_backward_weights(const Tensor& x, const Tensor& dy, const Tensor& dw,
                                      bool accumulate);

}  // namespace tasuki
