// Kernels with dynamic shared memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace tasuki::testing {

inline constexpr std::size_t declared_bytes = 1024;

struct SharedUse {
  bool has_declared = false;      // declared_bytes beside the dynamic memory
  std::size_t dynamic_bytes = 0;  // of the one block
  std::size_t written = 0;        // so many bytes of it, a multiple of 4
};
void launch_shared(const SharedUse& use);

// Allows these kernels so much dynamic memory.
cudaError_t allow_shared(bool has_declared, std::size_t bytes);
cudaFuncAttributes attributes_of_shared(bool has_declared);

}  // namespace tasuki::testing
