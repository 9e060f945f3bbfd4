// The stream and device of a kernel launch. Headers of kernels take it and plain pointers, so that
// their sources need nothing else of Tasuki.
#pragma once

#include <cuda_runtime_api.h>

namespace tasuki {

struct Launch {
  cudaStream_t stream = nullptr;
  int multiprocessors = 1;  // of the device, to choose a grid
};

}  // namespace tasuki
