// The handle of the simulated cuDNN.
#pragma once

#include <cudnn.h>

#include <cstdint>

#include "queue.hpp"
#include "values.hpp"

struct cudnnContext {
  cudaStream_t stream = nullptr;
  std::uint64_t number = tasuki::simulated::number_of(nullptr);  // of that stream

  // cuDNN may look at the stream that a handle has, and so at none that is gone.
  bool is_sound() const { return number == tasuki::simulated::number_of(stream); }
};

namespace tasuki::simulated {

inline ValueType type_of(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return ValueType::float32;
    case CUDNN_DATA_HALF:
      return ValueType::float16;
    case CUDNN_DATA_BFLOAT16:
      return ValueType::bfloat16;
    default:
      return ValueType::unknown;
  }
}

}  // namespace tasuki::simulated
