// AttentionOperations: the operations of a backend scaled dot-product attention. The conventions
// of backend.hpp hold.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class AttentionOperations {
 public:
  virtual ~AttentionOperations() = default;
};

}  // namespace tasuki
