// Whether MPI takes pointers to a GPU's memory.
#pragma once

#include "tasuki/tensor/dtype.hpp"

namespace tasuki {

// Asked of the running library (MPIX_Query_cuda_support), as the same program may meet another one;
// an MPI without that question cannot. The environment's TASUKI_GPU_STAGING=1 says no, for an MPI
// that promises what its network does not keep. MPI's reductions of 16-bit floats are functions of
// ours that run on the host, so these always pass through host memory.
bool mpi_reduces_gpu_memory(DType type);

}  // namespace tasuki
