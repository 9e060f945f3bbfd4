// The symbol that libtasuki.so looks for in this library (tensor/cuda_loading/loader.cpp).
#include "tensor/cuda_loading/entry.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>

#include "core/error.hpp"
#include "tensor/cuda/cuda_backend.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include "core/trace.hpp"
#endif

namespace tasuki {
namespace {

// Scopes of core/trace.hpp become ranges of NVIDIA's profilers (NVTX) from now on. Without a
// profiler a range costs a call. Does nothing if the toolkit that built this library lacks NVTX.
void show_scopes_to_profilers() {
#if __has_include(<nvtx3/nvToolsExt.h>)
  set_scope_listener(
      {.push = [](const char* name) { nvtxRangePushA(name); }, .pop = [] { nvtxRangePop(); }});
#endif
}

}  // namespace

std::string CudaBackend::describe() const {
  const auto cublas = cublasLtGetVersion();
  return fmt::format("CUDA {}.{}, cuBLASLt {}.{}", CUDART_VERSION / 1000,
                     CUDART_VERSION % 1000 / 10, cublas / 10000, cublas % 10000 / 100);
}

}  // namespace tasuki

extern "C" const tasuki::CudaEntry tasuki_cuda_entry{
    TASUKI_PROJECT_VERSION, CUDART_VERSION, [] {
      tasuki::register_backend(tasuki::DeviceKind::cuda, std::make_unique<tasuki::CudaBackend>());
      tasuki::register_nccl_transport();
      tasuki::show_scopes_to_profilers();
    }};
