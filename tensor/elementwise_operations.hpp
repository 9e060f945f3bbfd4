// ElementwiseOperations: the operations of a backend element by element, with broadcasting. The
// conventions of backend.hpp hold.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class ElementwiseOperations {
 public:
  virtual ~ElementwiseOperations() = default;
};

}  // namespace tasuki
