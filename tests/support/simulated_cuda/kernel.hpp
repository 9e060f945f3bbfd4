// The language of CUDA kernels for a C++ compiler: included before a translated source
// (translate_kernels.py). The threads of a block run as fibers of one thread of the host, in an
// order that changes from barrier to barrier, so that a barrier that is missing shows; blocks run
// one after the other.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>

#undef __global__
#undef __grid_constant__
#undef __launch_bounds__
#undef __shared__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static
#define threadIdx (::tasuki::simulated::this_thread().index)
#define blockIdx (::tasuki::simulated::this_thread().block)
#define blockDim (::tasuki::simulated::this_thread().block_size)
#define gridDim (::tasuki::simulated::this_thread().grid_size)

namespace tasuki::simulated {

struct Thread {
  dim3 index, block, block_size, grid_size;
};
const Thread& this_thread();

// Of the running thread: waits for all threads of its block that have not ended.
void block_barrier();
// Waits for the 32 threads of its warp and returns where each of them left `bytes` of `value`.
const void* const* exchange_in_warp(const void* value, std::size_t bytes);
unsigned lane();
unsigned long long nanoseconds();

// A block's dynamic shared memory (extern __shared__).
void* dynamic_shared();
// Called where a kernel declares shared memory, of which a launch knows nothing: where that and the
// dynamic memory are more than CUDA would launch a block with, the process ends.
void declare_shared(const void* place, std::size_t bytes);

struct Configuration {
  dim3 grid, block;
  std::size_t shared_bytes = 0;  // dynamic
  cudaStream_t stream = nullptr;
};
// Has `kernel` run by every thread of the grid when it is the stream's turn. What CUDA would refuse
// becomes the error that cudaGetLastError reports. `function`: what knows the kernel's limits of
// shared memory; not needed without dynamic shared memory.
void enqueue_kernel(const Configuration& configuration, const void* function,
                    std::function<void()> kernel, const char* name);

template <class... Parameters>
const void* address_of(void (*kernel)(Parameters...)) {
  return reinterpret_cast<const void*>(kernel);
}

// `name`: for counts.hpp.
template <class Kernel, class... Arguments>
void launch(const Configuration& configuration, const void* function, const char* name,
            Kernel kernel, Arguments... arguments) {
  enqueue_kernel(
      configuration, function, [=] { kernel(arguments...); }, name);
}

}  // namespace tasuki::simulated

// CUDA has these without a namespace.
using std::isfinite;
using std::isinf;
using std::isnan;

inline void __syncthreads() {
  tasuki::simulated::block_barrier();
}
inline void __syncwarp() {
  const char nothing = 0;
  tasuki::simulated::exchange_in_warp(&nothing, sizeof(nothing));
}
inline void __threadfence_system() {}

template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lanes) {
  const void* const* const values = tasuki::simulated::exchange_in_warp(&value, sizeof(T));
  T other;
  std::memcpy(&other, values[tasuki::simulated::lane() ^ static_cast<unsigned>(lanes)], sizeof(T));
  return other;
}

template <class T>
T __shfl_sync(unsigned /*mask*/, T value, int lane) {
  const void* const* const values = tasuki::simulated::exchange_in_warp(&value, sizeof(T));
  T other;
  std::memcpy(&other, values[lane], sizeof(T));
  return other;
}

template <class T>
T atomicAdd(T* place, T value) {
  const T before = *place;
  *place += value;
  return before;
}

inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fsub_rn(float a, float b) {
  return a - b;
}
inline float __fadd_rn(float a, float b) {
  return a + b;
}
inline float __fmul_rn(float a, float b) {
  return a * b;
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
