// ImageOperations: the operations of a backend on images besides convolution, pooling and batch
// normalisation. The conventions of backend.hpp hold.
#pragma once

#include "tasuki/tensor/tensor.hpp"

namespace tasuki {

class ImageOperations {
 public:
  virtual ~ImageOperations() = default;
};

}  // namespace tasuki
