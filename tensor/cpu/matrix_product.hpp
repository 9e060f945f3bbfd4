// Matrix products of float32 by oneDNN's sgemm.
#pragma once

#include <cstdint>

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

}  // namespace tasuki
