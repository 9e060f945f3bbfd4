// Whether MPI can work on GPU memory.
#pragma once

#include "tensor/dtype.hpp"

namespace tasuki {

// Whether MPI reduces values of this type in GPU memory. Asks the library in use
// (MPIX_Query_cuda_support), which may differ from the one at build time; false if it cannot tell.
// The environment variable TASUKI_GPU_STAGING=1 makes it false, for an MPI whose network does not
// work with GPU memory. float16 and bfloat16 always pass through the host, because Tasuki's own MPI
// operations for them run there.
bool mpi_reduces_gpu_memory(DType type);

}  // namespace tasuki
