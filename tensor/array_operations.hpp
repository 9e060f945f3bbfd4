// ArrayOperations: the operations of a backend on whole axes of arrays: reductions, permutations,
// padding, products of matrices. The conventions of backend.hpp hold.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class ArrayOperations {
 public:
  virtual ~ArrayOperations() = default;
};

}  // namespace tasuki
