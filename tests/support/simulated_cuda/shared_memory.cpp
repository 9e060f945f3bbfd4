#include "shared_memory.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "device.hpp"
#include "queue.hpp"

namespace tasuki::simulated {
namespace {

struct Kernels {
  std::mutex mutex;
  std::map<std::pair<const void*, int>, std::size_t> allowed;  // by kernel and device
  std::map<const void*, std::size_t> declared;
};

Kernels& kernels() {
  static auto* const instance = new Kernels;
  return *instance;
}

std::pair<const void*, int> on_this_device(const void* function) {
  int device = 0;
  cudaGetDevice(&device);
  return {function, device};
}

}  // namespace

// CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; a block's is 1 KiB
// less than a multiprocessor's.
std::size_t most_shared_bytes() {
  const auto kibibytes = [](int capability) {
    switch (capability) {
      case 75:
        return 64;
      case 80:
      case 87:
        return 163;
      case 86:
      case 89:
      case 120:
        return 99;
      default:
        return capability < 75 ? 48 : 227;
    }
  };
  return static_cast<std::size_t>(kibibytes(compute_capability())) << 10;
}

SharedLimits shared_limits(const void* function) {
  const std::lock_guard lock(kernels().mutex);
  const auto found = kernels().allowed.find(on_this_device(function));
  if (found == kernels().allowed.end()) return {};
  return {found->second, std::max(most_shared_bytes(), shared_bytes_without_opt_in)};
}

void note_static_shared(const void* function, std::size_t bytes) {
  const std::lock_guard lock(kernels().mutex);
  kernels().declared[function] = bytes;
}

extern "C" {

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;  // a wish
  const bool is_possible = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize && value >= 0 &&
                           static_cast<std::size_t>(value) <= most_shared_bytes();
  if (!is_possible) {
    set_last_error(cudaErrorInvalidValue);
    return cudaErrorInvalidValue;
  }
  const std::lock_guard lock(kernels().mutex);
  kernels().allowed[on_this_device(function)] = static_cast<std::size_t>(value);
  return cudaSuccess;
}

// What a kernel declares is known once one of its blocks has run; registers are not.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  const std::size_t most = shared_limits(function).dynamic_bytes;
  const std::lock_guard lock(kernels().mutex);
  *attributes = {};
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(most);
  attributes->maxThreadsPerBlock = 1024;
  const auto declared = kernels().declared.find(function);
  if (declared != kernels().declared.end()) attributes->sharedSizeBytes = declared->second;
  return cudaSuccess;
}

}  // extern "C"
}  // namespace tasuki::simulated
