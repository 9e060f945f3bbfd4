#include "tensor/matmul_geometry.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace tasuki {

MatmulGeometry::MatmulGeometry(const Shape& a, bool transpose_a, const Shape& b, bool transpose_b,
                               bool sums) {
  const auto text = [](const Shape& shape, bool transposed) {
    return shape.text() + (transposed ? " (transposed)" : "");
  };
  const int rank_a = a.rank(), rank_b = b.rank();
  bool fits = rank_a >= 2 && rank_b >= 2;
  if (fits) {
    m = a[rank_a - (transpose_a ? 1 : 2)];
    k = a[rank_a - (transpose_a ? 2 : 1)];
    n = b[rank_b - (transpose_b ? 2 : 1)];
    fits = b[rank_b - (transpose_b ? 1 : 2)] == k;
    if (rank_a > 2 && rank_b > 2)
      fits = fits && rank_a == rank_b && std::equal(a.begin(), a.end() - 2, b.begin());
  }
  TASUKI_CHECK(fits, "matmul: arrays of {} and {} do not fit each other", text(a, transpose_a),
               text(b, transpose_b));
  const Shape& batched = rank_a > 2 ? a : b;
  for (int axis = 0; axis + 2 < batched.rank(); ++axis) batch *= batched[axis];
  shape = batched;
  shape[shape.rank() - 2] = m;
  shape[shape.rank() - 1] = n;
  if (sums) shape = {m, n};
  step_a = rank_a > 2 ? m * k : 0;
  step_b = rank_b > 2 ? k * n : 0;
  step_c = sums || batched.rank() == 2 ? 0 : m * n;
  if (step_c > 0 && step_b == 0 && !transpose_a) {
    m *= batch;
    batch = 1;
  } else if (sums && step_a > 0 && step_b > 0 && transpose_a && !transpose_b) {
    k *= batch;
    batch = 1;
  }
}

}  // namespace tasuki
