// SequenceOperations: the operations of a backend on sequences: embeddings, recurrent layers. The
// conventions of backend.hpp hold.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class SequenceOperations {
 public:
  virtual ~SequenceOperations() = default;
};

}  // namespace tasuki
