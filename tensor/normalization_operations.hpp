// NormalizationOperations: the operations of a backend over the elements of an example: softmax,
// layer and group normalisation. The conventions of backend.hpp hold.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class NormalizationOperations {
 public:
  virtual ~NormalizationOperations() = default;
};

}  // namespace tasuki
