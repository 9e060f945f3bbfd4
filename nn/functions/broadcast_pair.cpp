#include "nn/functions/broadcast_pair.hpp"

#include "nn/functions/operand_type.hpp"
#include "tensor/array_operations.hpp"
#include "tensor/backend.hpp"

namespace tasuki {

DType common_type(const Variable& a, const Variable& b, const char* what) {
  check_operand_type(what, a);
  check_operand_type(what, b);
  const DType left = a.value().dtype(), right = b.value().dtype();
  TASUKI_CHECK(left == right || left == DType::float32 || right == DType::float32,
               "{}: {} of {} and {} of {} have no common type", what, name_of(left),
               a.shape().text(), name_of(right), b.shape().text());
  return left == DType::float32 ? right : left;
}

Tensor sum_to(const Tensor& gradient, const Shape& shape, DType type) {
  if (gradient.shape() == shape) return gradient.to(type);
  const int missing = gradient.shape().rank() - shape.rank();
  AxisSet repeated = 0;
  for (int axis = 0; axis < gradient.shape().rank(); ++axis)
    if (axis < missing || shape[axis - missing] != gradient.shape()[axis])
      repeated |= AxisSet{1} << axis;
  return backend(gradient.device())
      .arrays()
      .reduce(Reduction::sum, gradient, repeated, 1, type)
      .reshape(shape);
}

}  // namespace tasuki
