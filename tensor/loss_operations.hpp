// LossOperations: the operations of a backend losses besides softmax cross entropy of the label
// alone. The conventions of backend.hpp hold.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class LossOperations {
 public:
  virtual ~LossOperations() = default;
};

}  // namespace tasuki
