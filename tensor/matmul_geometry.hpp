// Shapes of batched matrix products, checked in one place for all backends.
#pragma once

#include <cstdint>

#include "tensor/shape.hpp"

namespace tasuki {

// Products c[i] = op(a[i]) op(b[i]) of row-major matrices, m x k and k x n after op. What can be
// one larger product is: many matrices that meet a single one, sums over stored rows.
struct MatmulGeometry {
  Shape shape;  // of the result
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  // Elements from one matrix to the next; 0 for a single one. All products are added up in one
  // result if step_c is 0.
  std::int64_t step_a = 0, step_b = 0, step_c = 0;

  // As ArrayOperations::matmul; an error names shapes that do not fit each other.
  MatmulGeometry(const Shape& a, bool transpose_a, const Shape& b, bool transpose_b, bool sums);
};

}  // namespace tasuki
