// ElementwiseOperations: the operations of a backend element by element, with broadcasting. The
// conventions of backend.hpp hold.
#pragma once

#include "tensor/element_functions.hpp"
#include "tensor/tensor.hpp"

namespace tasuki {

class ElementwiseOperations {
 public:
  virtual ~ElementwiseOperations() = default;

  virtual Tensor map(Map f, const Tensor& x, float p = 0, float q = 0) = 0;
  // dx. `kept`: the result if gradient_needs_result(f), else x.
  virtual Tensor map_gradient(Map f, const Tensor& kept, const Tensor& dy, float p = 0,
                              float q = 0) = 0;

  // Of operands of one type, which are broadcast to a common shape as in NumPy
  // (tensor/strided_loop.hpp). If the shapes are equal, results have the layout of a.
  virtual Tensor binary(Binary f, const Tensor& a, const Tensor& b) = 0;
  virtual Tensor ternary(Ternary f, const Tensor& a, const Tensor& b, const Tensor& c) = 0;
};

}  // namespace tasuki
