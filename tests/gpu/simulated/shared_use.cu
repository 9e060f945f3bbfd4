#include "shared_use.hpp"

namespace tasuki::testing {
namespace {

template <bool has_declared>
__global__ void write_kernel(std::size_t floats) {
  extern __shared__ float dynamic[];
  if constexpr (has_declared) {
    __shared__ float declared[declared_bytes / sizeof(float)];
    declared[threadIdx.x] = 1;
  }
  for (std::size_t i = 0; i < floats; ++i) dynamic[i] = 1;
}

const void* kernel(bool has_declared) {
  return has_declared ? reinterpret_cast<const void*>(write_kernel<true>)
                      : reinterpret_cast<const void*>(write_kernel<false>);
}

}  // namespace

void launch_shared(const SharedUse& use) {
  const std::size_t floats = use.written / sizeof(float);
  if (use.has_declared)
    write_kernel<true><<<1, 1, use.dynamic_bytes>>>(floats);
  else
    write_kernel<false><<<1, 1, use.dynamic_bytes>>>(floats);
}

cudaError_t allow_shared(bool has_declared, std::size_t bytes) {
  return cudaFuncSetAttribute(kernel(has_declared), cudaFuncAttributeMaxDynamicSharedMemorySize,
                              static_cast<int>(bytes));
}

cudaFuncAttributes attributes_of_shared(bool has_declared) {
  cudaFuncAttributes attributes{};
  cudaFuncGetAttributes(&attributes, kernel(has_declared));
  return attributes;
}

}  // namespace tasuki::testing
