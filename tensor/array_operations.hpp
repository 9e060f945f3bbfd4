// ArrayOperations: the operations of a backend on whole axes of arrays: reductions, permutations,
// padding, products of matrices. The conventions of backend.hpp hold; results are plain.
#pragma once

#include "tensor/strided_loop.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

enum class Reduction { sum, max };

// Some axes of a shape: bit i stands for axis i.
using AxisSet = unsigned;

// Elements of a plain array in another order, or some of them, or some repeatedly: element (i, j,
// ...) is the one at offset + i strides[0] + j strides[1] + ...
struct View {
  Shape shape;
  Strides strides{};
  std::int64_t offset = 0;

  // All of an array of this shape, in order.
  explicit View(const Shape& all) : shape(all), strides(plain_strides(all)) {}
};

// Checks the operands of put_view().
inline void check_put(const Tensor& destination, const View& view, const Tensor& source) {
  TASUKI_CHECK(
      source.shape() == view.shape && source.dtype() == destination.dtype() &&
          source.device() == destination.device() && destination.is_plain(),
      "put_view: {} of {} on {} cannot be written to {} elements of a {} array of {} on {}",
      name_of(source.dtype()), source.shape().text(), source.device().text(), view.shape.text(),
      name_of(destination.dtype()), destination.shape().text(), destination.device().text());
}

class ArrayOperations {
 public:
  virtual ~ArrayOperations() = default;

  // Sums, times `factor`, or largest elements along these axes, whose size becomes 1; `type` is
  // x's or float32. Sums are float32 until the end, and their order does not depend on the number
  // of threads. Sums of nothing are 0; the largest of nothing is an error, of NaN is NaN.
  virtual Tensor reduce(Reduction op, const Tensor& x, AxisSet axes, float factor, DType type) = 0;

  // The elements of `x`, of any type, that `view` has.
  virtual Tensor take_view(const Tensor& x, const View& view) = 0;
  // Writes `source` to the elements of `destination`, which is plain; none may occur twice.
  virtual void put_view(const Tensor& destination, const View& view, const Tensor& source) = 0;

  // op(a[i]) op(b[i]) for matrices in the last two axes, op transposing them if so asked. Leading
  // axes are the same in both, or one operand is a single matrix (rank 2), used with each matrix of
  // the other. `sums`: adds up the products of all pairs instead of keeping each.
  virtual Tensor matmul(const Tensor& a, bool transpose_a, const Tensor& b, bool transpose_b,
                        bool sums) = 0;
};

}  // namespace tasuki
