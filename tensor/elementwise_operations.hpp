// ElementwiseOperations: the operations of a backend element by element, with broadcasting. The
// conventions of backend.hpp hold.
#pragma once

#include "tasuki/tensor/element_functions.hpp"
#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class ElementwiseOperations {
 public:
  virtual ~ElementwiseOperations() = default;

  virtual Tensor map(Map f, const Tensor& x, float p = 0, float q = 0) = 0;
  // dx. `kept`: the result if gradient_needs_result(f), else x.
  virtual Tensor map_gradient(Map f, const Tensor& kept, const Tensor& dy, float p = 0,
                              float q = 0) = 0;
};

}  // namespace tasuki
