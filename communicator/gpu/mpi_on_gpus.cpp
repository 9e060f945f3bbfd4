#include "communicator/gpu/mpi_on_gpus.hpp"

#include <mpi.h>

#include "core/environment.hpp"
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>
#endif

namespace tasuki {
namespace {

bool is_cuda_aware() {
  if (is_switched_on("TASUKI_GPU_STAGING")) return false;
#ifdef MPIX_CUDA_AWARE_SUPPORT
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

}  // namespace

bool mpi_reduces_gpu_memory(DType type) {
  static const bool aware = is_cuda_aware();
  return aware && type != DType::float16 && type != DType::bfloat16;
}

}  // namespace tasuki
