// The symbol that libtasuki.so looks for in this library (tensor/cuda_loading/loader.cpp).
#include "tensor/cuda_loading/entry.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "core/error.hpp"
#include "tensor/cuda/check.hpp"
#include "tensor/cuda/cuda_backend.hpp"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include "core/trace.hpp"
#endif

namespace tasuki {
namespace {

std::string text_of(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (const char byte : uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned>(static_cast<unsigned char>(byte)));
  return text;
}

std::vector<Gpu> gpus_of_runtime() {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  std::vector<Gpu> found;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    std::array<char, 32> bus_id{};
    check_cuda(cudaDeviceGetPCIBusId(bus_id.data(), bus_id.size(), index), "cudaDeviceGetPCIBusId");
    found.push_back({properties.name, text_of(properties.uuid), bus_id.data()});
  }
  return found;
}

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
    TASUKI_PROJECT_VERSION, CUDART_VERSION,
    [] {
      tasuki::register_backend(tasuki::DeviceKind::cuda, std::make_unique<tasuki::CudaBackend>());
      tasuki::register_nccl_transport();
      tasuki::show_scopes_to_profilers();
    },
    [] { return tasuki::gpus_of_runtime(); }};
